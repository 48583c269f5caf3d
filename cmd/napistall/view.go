package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
)

func newView() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "view RUN",
		Short: "Show a run in a browser, also while it goes on",
		Long: `Serve the page that report --format html writes of the run in the directory RUN, for a browser on this machine, and
print its address. While the run goes on, the page renews itself as trials end. The page can be read, and nothing changed;
whoever reaches the address can read it. It is served until Ctrl-C, which makes exit status 130.`,
		Example: `  napistall view runs/mainline-20261130-170000
  napistall view --listen 127.0.0.1:8080 runs/mainline-20261130-170000`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return view(cmd, args[0], listen) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "serve at `HOST:PORT`; port 0 takes a free one")
	return cmd
}

// view serves the run at path until cmd's context ends.
func view(cmd *cobra.Command, path, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usagef("--listen %q: want HOST:PORT, such as 127.0.0.1:8080", listen)
	}
	dir, err := rundir.Open(path)
	if err != nil {
		return err
	}
	warnOf(dir)
	ctx := cmd.Context()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	addr := l.Addr().(*net.TCPAddr)
	if !addr.IP.IsLoopback() {
		slog.Warn(fmt.Sprintf("--listen %s: other machines can read the run as well", listen))
	}
	srv := &http.Server{Handler: &viewer{path: path, host: host}, ReadHeaderTimeout: 10 * time.Second}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", shownAddress(addr)); err != nil {
		return errors.Join(err, l.Close())
	}
	return serve(ctx, srv, l)
}

// serve serves until ctx ends, and lets the answers under way a moment to end.
func serve(ctx context.Context, srv *http.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := srv.Shutdown(last)
	if err != nil {
		err = srv.Close()
	}
	<-failed
	return errors.Join(ctx.Err(), err)
}

// shownAddress is addr as a browser on this machine takes it.
func shownAddress(addr *net.TCPAddr) string {
	if addr.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", addr.Port)
	}
	return addr.String()
}

// A viewer answers with the page of the run at path, and with its state.
type viewer struct {
	path string
	host string // that it was told to listen at

	mu    sync.Mutex
	state string // that page is of
	page  []byte
}

// news is the answer at /state.
type news struct {
	State string `json:"state"`
	Live  string `json:"live"`
	Ended bool   `json:"ended"`
}

// ServeHTTP answers a GET at / or /state. A page of somebody else's that a browser took for one of this machine's, by a name
// that was bound anew to its address, sends that name as the Host, and is refused.
func (v *viewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "frame-ancestors 'none'")
	switch {
	case !v.allowed(r.Host):
		http.Error(w, "this is no name of napistall view's: use the address that it printed", http.StatusForbidden)
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		v.servePage(w)
	case r.URL.Path == "/state":
		v.serveState(w)
	default:
		http.NotFound(w, r)
	}
}

// allowed reports whether a request may be for host: an address, which no name server can bind to another, localhost, or the name in --listen.
func (v *viewer) allowed(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || v.host != "" && strings.EqualFold(host, v.host)
}

func (v *viewer) serveState(w http.ResponseWriter) {
	dir, err := rundir.Open(v.path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	ended := dir.Ending().State != rundir.Unfinished
	_ = json.NewEncoder(w).Encode(news{State: stateOf(dir), Live: liveWords(dir, time.Now()), Ended: ended}) // the reader may have gone
}

func (v *viewer) servePage(w http.ResponseWriter) {
	page, err := v.render()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page) // the reader may have gone
}

// render returns the page of what is there now. The one of the same state is kept.
func (v *viewer) render() ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := rundir.Open(v.path)
	if err != nil {
		return nil, err
	}
	state := stateOf(dir)
	if v.page != nil && v.state == state {
		return v.page, nil
	}
	run := loadRun(dir)
	end := dir.Ending().State
	run.Interrupted = end == rundir.Interrupted || end == rundir.Failed
	x, err := loadExtras(dir, run)
	if err != nil {
		return nil, err
	}
	x.Live, x.State = liveWords(dir, time.Now()), state
	var b bytes.Buffer
	if err := report.HTML(&b, run, x); err != nil {
		return nil, err
	}
	v.state, v.page = state, b.Bytes()
	return v.page, nil
}

// stateOf is a word that changes whenever the page of dir does.
func stateOf(dir *rundir.Dir) string {
	end := dir.Ending()
	sum := sha256.New()
	fmt.Fprintln(sum, dir.Done(), dir.Aborted(), dir.NotRun(), dir.Problems(), end.State, end.Ended, end.Why)
	for _, id := range dir.Done() {
		info, _ := dir.Info(id)
		fmt.Fprintln(sum, info.Started.UnixNano(), info.Try)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

// liveWords say how far dir's run is.
func liveWords(dir *rundir.Dir, now time.Time) string {
	end := dir.Ending()
	s := fmt.Sprintf("%d of %d trials done", len(dir.Done()), len(dir.Plan().Trials))
	if n := len(dir.Aborted()); n > 0 {
		s += fmt.Sprintf(", %d aborted", n)
	}
	switch end.State {
	case rundir.Unfinished:
		s = "not ended: " + s
		if w := underWay(dir, now); len(w) > 0 {
			s += ", under way: " + strings.Join(w, ", ")
		}
	case rundir.Failed:
		s = "failed: " + s + ": " + end.Why
	default:
		s = string(end.State) + ": " + s
	}
	return s
}

// underWay lists the trials whose folders are being written, with how long ago they were begun.
func underWay(dir *rundir.Dir, now time.Time) []string {
	entries, err := os.ReadDir(filepath.Join(dir.Path(), "trials"))
	if err != nil {
		return nil // dir's problems have it
	}
	var out []string
	for _, e := range entries {
		id, partly := strings.CutPrefix(e.Name(), ".partial-")
		st, err := e.Info()
		if !partly || err != nil {
			continue
		}
		out = append(out, fmt.Sprintf("%s (begun %d s ago)", id, max(0, int(now.Sub(st.ModTime()).Seconds()))))
	}
	return out
}
