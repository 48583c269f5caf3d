package machine

// names of the kernel, as uname(2) gives them.
type kernelNames struct{ release, version, machine string }

// uname reads the names from /proc, so that a tree of files can stand for a machine; what only the
// system call gives (the architecture before 6.1) comes from there on the running machine.
func (s Source) uname() kernelNames {
	n := kernelNames{
		release: s.text("proc/sys/kernel/osrelease"),
		version: s.text("proc/sys/kernel/version"),
		machine: s.text("proc/sys/kernel/arch"),
	}
	if s.Root != "" && s.Root != "/" {
		return n
	}
	sys := sysUname()
	for _, p := range []struct{ to, from *string }{
		{&n.release, &sys.release}, {&n.version, &sys.version}, {&n.machine, &sys.machine},
	} {
		if *p.to == "" {
			*p.to = *p.from
		}
	}
	return n
}
