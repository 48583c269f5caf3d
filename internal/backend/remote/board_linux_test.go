package remote

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/testenv"
)

// buildAgent builds the program that boards get, once.
func buildAgent(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Go)
	if builtAgent.path == "" {
		t.Fatal("TestMain has made no directory")
	}
	builtAgent.once.Do(func() {
		cmd := exec.Command("go", "build", "-o", builtAgent.path, "../../../cmd/napistall/guest")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			builtAgent.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if builtAgent.err != nil {
		t.Fatalf("build the agent: %v", builtAgent.err)
	}
	return builtAgent.path
}

var builtAgent = &struct {
	once sync.Once
	path string
	err  error
}{}

func TestMain(m *testing.M) {
	if os.Getenv(victimVar) != "" {
		os.Exit(victim())
	}
	dir, err := os.MkdirTemp("", "napistall-agent-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	builtAgent.path = filepath.Join(dir, "agent")
	code := m.Run()
	_ = os.RemoveAll(dir) // a directory of our own
	os.Exit(code)
}

// A server is an ssh server on a board that is made of network and mount namespaces of its own.
type server struct {
	dir string // keys and logs
	cmd *exec.Cmd
}

// port is the server's, in its own network namespace.
const port = "2222"

// sshd is OpenSSH's server, under the shell of this machine.
func sshd(t *testing.T) *server {
	t.Helper()
	need(t, "sshd", "/usr/sbin/sshd", "openssh-server")
	s := newServer(t)
	s.write(t, "sshd_config", strings.ReplaceAll(`HostKey DIR/host
AuthorizedKeysFile DIR/authorized
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
PrintMotd no
`, "DIR", s.dir))
	s.start(t, `mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -p `+port+` -o ListenAddress=127.0.0.1 -f "$0"/sshd_config`)
	return s
}

// dropbear is a router's server, with nothing but busybox to log in to.
func dropbear(t *testing.T) *server {
	t.Helper()
	need(t, "dropbear", "/usr/sbin/dropbear", "dropbear-bin")
	need(t, "busybox", "/usr/bin/busybox", "busybox-static")
	s := newServer(t)
	s.write(t, "passwd", "root:x:0:0:root:"+s.dir+"/home:/bin/sh\n")
	s.write(t, "shells", "/bin/sh\n")
	s.write(t, "home/.ssh/authorized_keys", s.read(t, "authorized"))
	if err := os.Mkdir(filepath.Join(s.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.do(t, "cp", "/usr/bin/busybox", filepath.Join(s.dir, "bin/busybox"))
	s.do(t, "dropbearconvert", "openssh", "dropbear", filepath.Join(s.dir, "host"), filepath.Join(s.dir, "host.dropbear"))
	s.start(t, `"$0"/bin/busybox --install -s "$0"/bin && mount --bind "$0"/passwd /etc/passwd && mount --bind "$0"/shells /etc/shells &&
		mount --bind "$0"/bin /usr/bin && exec /usr/sbin/dropbear -F -E -s -P "$0"/pid -r "$0"/host.dropbear -p 127.0.0.1:`+port)
	return s
}

func need(t *testing.T, what, path, pkg string) {
	t.Helper()
	testenv.Need(t, testenv.Root)
	if _, err := os.Stat(path); err != nil {
		testenv.Lacks(t, what, "no "+path+": install "+pkg)
	}
}

func newServer(t *testing.T) *server {
	t.Helper()
	testenv.Alone(t)
	s := &server{dir: t.TempDir()}
	// A login reads its keys below directories that nobody else may write to.
	if err := os.Chmod(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"host", "user"} {
		s.do(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, key))
	}
	s.write(t, "authorized", s.read(t, "user.pub"))
	s.write(t, "known_hosts", "[127.0.0.1]:"+port+" "+s.read(t, "host.pub"))
	return s
}

func (s *server) do(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
}

func (s *server) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *server) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// serverLog is the file in a server's dir with what it says.
const serverLog = "server.log"

// start runs the board until the test ends.
func (s *server) start(t *testing.T, script string) {
	t.Helper()
	s.cmd = exec.Command("unshare", "--net", "--mount", "sh", "-c", "ip link set lo up && { "+script+"; }", s.dir)
	log, err := os.Create(filepath.Join(s.dir, serverLog)) // not a buffer, which would be read while it is written to
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the server has its own
	s.cmd.Stderr = log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // the board is switched off
		_ = s.cmd.Wait()         // "signal: killed"
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.read(t, serverLog))
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(20 * time.Second); ; <-tick.C {
		if tcp, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", s.cmd.Process.Pid)); err == nil && strings.Contains(string(tcp), ":08AE 00000000:0000 0A") {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the server does not listen after 20 s: %s", s.read(t, serverLog))
		}
	}
}

// backend returns the backend for the board.
func (s *server) backend(t *testing.T) Backend {
	t.Helper()
	return Backend{
		Live:   backend.Live{Bounce: true},
		Target: Target{Host: "root@127.0.0.1", Port: port},
		Agent:  buildAgent(t),
		Log:    func(line string) { t.Log(line) },
		ssh:    s.client(), options: s.options(),
		limits: limits{connect: 20 * time.Second, upload: 90 * time.Second, leave: 20 * time.Second},
	}
}

// client is ssh inside the board's network.
func (s *server) client() []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", s.cmd.Process.Pid), "ssh"}
}

// options are those of a client with nothing of the user's.
func (s *server) options() []string {
	return []string{"-F", "none", "-i", filepath.Join(s.dir, "user"), "-o", "IdentitiesOnly=yes",
		"-o", "UserKnownHostsFile=" + filepath.Join(s.dir, "known_hosts"), "-o", "GlobalKnownHostsFile=none"}
}

// traces says what of a trial is on the board, which has this machine's processes and files.
func (s *server) traces() string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // only a bad pattern
	for _, name := range lines {
		b, err := os.ReadFile(name)
		line := strings.ReplaceAll(string(b), "\x00", " ")
		if err == nil && (strings.HasPrefix(line, "/proc/self/fd/9 agent") || strings.HasPrefix(line, "napistall trial")) {
			found = append(found, "process "+line)
		}
	}
	for _, pattern := range []string{"/tmp/.napistall-agent-*", "/var/tmp/.napistall-agent-*", "/run/napistall-undo-*", "/dev/shm/.napistall-agent-*"} {
		files, _ := filepath.Glob(pattern) // only a bad pattern
		found = append(found, files...)
	}
	return strings.Join(found, ", ")
}

// clean waits until nothing of a trial is on the board.
func (s *server) clean(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.traces() != "" {
		select {
		case <-ctx.Done():
			t.Fatalf("left on the board: %s", s.traces())
		case <-tick.C:
		}
	}
}
