package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/experiment"
)

// deviceVar makes this test's program a napistall that measures a device; its value says with what end.
const deviceVar = "NAPISTALL_TEST_DEVICE"

// A machine of its own has a device eth9 with an address and a route. What napistall says goes to stdout, and
// then what is there once it has ended.
const deviceMachine = `mount -t sysfs sysfs /sys && ip link set lo up &&
ip link add eth9 type veth peer name peer9 && ip link set eth9 up && ip link set peer9 up && ip addr add 192.0.2.1/24 dev eth9 &&
ip route add 198.51.100.0/24 via 192.0.2.2 || exit 1
look() { ip -o link show dev eth9 | sed "s/ state [A-Z]* / /"; ip -o addr show dev eth9 scope global; ip route; }
look >"$1/before"
ping -q -I peer9 -i 0.01 -c 300 192.0.2.1 >/dev/null 2>&1 &
"$0"; echo status $?
n=0; while [ "$(cat /sys/class/net/eth9/threaded)" != 0 ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
echo after $(cat /sys/class/net/eth9/threaded)
look >"$1/after"; cmp "$1/before" "$1/after" && echo same`

// deviceTrial measures eth9 and says what its mode is meanwhile.
func deviceTrial() int {
	// A veth end has a NAPI of its own only with GRO (or XDP).
	e, err := ethtool.NewEthtool()
	if err == nil {
		err = e.Change("eth9", map[string]bool{"rx-gro": true})
	}
	if err != nil {
		fmt.Println("switch GRO on:", err)
		return 1
	}
	b := Backend{Live: backend.Live{Device: "eth9"}}
	arm := backendtest.LiveArm()
	arm.Load = experiment.Load{Kind: experiment.External, Hold: 500 * time.Millisecond, CPU: experiment.LastCPU}
	arm.ModeAsIs = os.Getenv(deviceVar) == "as is"
	target, err := b.Acquire(context.Background(), arm)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	err = target.Run(context.Background(), experiment.Trial{Rep: 1, Arm: arm}, func(r experiment.Record) error {
		switch {
		case r.Phase != nil && r.Phase.Name == experiment.Hold:
			fmt.Println("during", text("/sys/class/net/eth9/threaded"))
			if os.Getenv(deviceVar) == "kill" {
				return unix.Kill(os.Getpid(), unix.SIGKILL)
			}
		case r.Facts != nil && r.Facts.Thread != "":
			fmt.Println("thread", r.Facts.Thread)
		case r.End != nil:
			fmt.Println("end", r.End.Outcome)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A real device gets the mode that the arm states while the trial runs, and has its own again afterwards, whatever
// ends the trial. Nothing else of it changes.
func TestRealDevice(t *testing.T) {
	here(t)
	for end, want := range map[string][]string{
		"done":  {"during 1", "thread napi/eth9-", "end completed", "status 0", "after 0", "same"},
		"as is": {"during 0", "end completed", "status 0", "after 0", "same"},
		"kill":  {"during 1", "status 137", "after 0", "same"},
	} {
		t.Run(end, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "sh", "-c", deviceMachine, exe(t), t.TempDir())
			cmd.Env = append(os.Environ(), deviceVar+"="+end)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, w := range want {
				if !strings.Contains(string(out), w) {
					t.Errorf("it says\n%swant %q", out, w)
				}
			}
		})
	}
}

func exe(t *testing.T) string {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return name
}
