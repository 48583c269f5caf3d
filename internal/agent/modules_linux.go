package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// removable lists the modules that a kernel loads by itself for what a trial makes, each before those
// that it needs.
func removable() []string {
	return []string{"veth", "dummy", "8021q", "garp", "mrp", "stp", "llc", "af_packet"}
}

// deviceOf is the kind of device for which a module is there. No device counts as the module's user, and
// removing it removes them all, whoever has made them.
func deviceOf(module string) string {
	switch module {
	case "veth", "dummy":
		return module
	case "8021q":
		return "vlan"
	}
	return ""
}

// noteModules notes which modules a trial may bring that are not there yet.
func (j *journal) noteModules() error {
	loaded, err := loadedModules()
	if err != nil || loaded == nil {
		return err
	}
	absent := slices.DeleteFunc(removable(), func(m string) bool {
		_, there := loaded[m]
		return there
	})
	if len(absent) == 0 {
		return nil
	}
	return j.note(change{Modules: absent})
}

// loadedModules returns the use count of each module, nil for a kernel without modules.
func loadedModules() (map[string]int, error) {
	text, err := os.ReadFile("/proc/modules")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	loaded := map[string]int{}
	for line := range strings.Lines(string(text)) { // name size uses users state address
		if f := strings.Fields(line); len(f) > 2 {
			loaded[f[0]], _ = strconv.Atoi(f[2]) // "-" without CONFIG_MODULE_UNLOAD: then none can be removed anyway
		}
	}
	return loaded, nil
}

// unloadModules removes those of names that nobody uses.
func unloadModules(names []string) (string, error) {
	loaded, err := loadedModules()
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(slices.Clone(names), func(m string) bool {
		_, there := loaded[m]
		return !there || !slices.Contains(removable(), m)
	})
	if len(names) == 0 {
		return "", nil
	}
	newestFirst(names)
	foreign, err := deviceKinds()
	if err != nil {
		return "", err
	}
	var gone []string
	var errs []error
	for _, m := range names {
		if foreign[deviceOf(m)] {
			continue
		}
		err := unix.DeleteModule(m, unix.O_NONBLOCK)
		switch {
		case err == nil:
			gone = append(gone, m)
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EBUSY), errors.Is(err, unix.ENOENT): // in use, or gone
		default:
			errs = append(errs, fmt.Errorf("unload module %s: %w", m, err))
		}
	}
	if len(gone) == 0 {
		return "", errors.Join(errs...)
	}
	return "unloaded " + strings.Join(gone, ", "), errors.Join(errs...)
}

// deviceKinds returns the kinds of network devices that there are in any network namespace in which a thread
// is or which is mounted.
func deviceKinds() (map[string]bool, error) {
	kinds := map[string]bool{}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in another namespace
		seen := map[uint64]bool{}
		for _, path := range namespaces() {
			if err := addKinds(path, seen, kinds); err != nil {
				result <- err
				return
			}
		}
		result <- nil
	}()
	return kinds, <-result
}

// namespaces lists the paths of network namespaces, many of them of the same one.
func namespaces() []string {
	paths, _ := filepath.Glob("/proc/[0-9]*/task/*/ns/net") // only a bad pattern
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return paths
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.Contains(line, " - nsfs ") {
			paths = append(paths, f[4])
		}
	}
	return paths
}

// addKinds enters the namespace at path, unless it was seen, and looks around.
func addKinds(path string, seen map[uint64]bool, kinds map[string]bool) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // its process has ended
	}
	defer func() { _ = unix.Close(fd) }() // only read
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || seen[st.Ino] {
		return err
	}
	seen[st.Ino] = true
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return nil // a namespace of another kind
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list the devices of a network namespace: %w", err)
	}
	for _, l := range links {
		kinds[l.Type()] = true
	}
	return nil
}
