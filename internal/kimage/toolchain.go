package kimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// compiler says which compiler it is, to the version: the first line of gcc --version.
func compiler(ctx context.Context, prefix string) (string, error) {
	cmd := exec.CommandContext(ctx, prefix+"gcc", "--version")
	cmd.Env = buildEnv()
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("ask %sgcc for its version: %w", prefix, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return prefix + first, nil
}

// missingTools returns the Debian packages that a build needs and that aren't here.
func missingTools(ctx context.Context, prefix string) []string {
	gcc, ld := "gcc", "binutils"
	if prefix != "" {
		// The cross compiler's package has Debian's name of the target in it, and brings its linker.
		gcc += "-" + strings.ReplaceAll(strings.TrimSuffix(prefix, "-"), "_", "-")
		ld += "-" + strings.ReplaceAll(strings.TrimSuffix(prefix, "-"), "_", "-")
	}
	tools := [][2]string{{"make", "make"}, {"gcc", "gcc"}, {prefix + "gcc", gcc}, {prefix + "ld", ld}, {"flex", "flex"}, {"bison", "bison"},
		{"bc", "bc"}, {"perl", "perl"}, {"tar", "tar"}, {"xz", "xz-utils"}}
	var missing []string
	for _, t := range tools {
		if _, err := exec.LookPath(t[0]); err != nil {
			missing = append(missing, t[1])
		}
	}
	// objtool, which every x86-64 kernel since 5.x is built with, reads ELF files; the compiler knows
	// where its headers are.
	if _, err := exec.LookPath("gcc"); err != nil {
		missing = append(missing, "libelf-dev")
	} else {
		for header, pkg := range map[string]string{"stdio.h": "libc6-dev", "gelf.h": "libelf-dev"} {
			cmd := exec.CommandContext(ctx, "gcc", "-fsyntax-only", "-include", header, "-x", "c", os.DevNull)
			cmd.Env = buildEnv()
			if err := cmd.Run(); err != nil && ctx.Err() == nil {
				missing = append(missing, pkg)
			}
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// needTools returns an error that names every missing package at once.
func needTools(ctx context.Context, spec Spec, prefix string) error {
	missing := missingTools(ctx, prefix)
	if len(missing) == 0 {
		return ctx.Err()
	}
	// libelf-dev can't be looked for without a compiler, so it is named along with it.
	return unsupportedError(fmt.Sprintf("kernel %q: building it needs %s: apt-get install %[2]s", spec, strings.Join(missing, " ")))
}

// buildEnv is the environment of a build: ours without what make, kbuild and compilers would take
// from it, so that the same build comes out of any shell.
func buildEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		for _, prefix := range []string{"MAKE", "KBUILD_", "KCONFIG_", "LC_"} {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return slices.Contains([]string{"MFLAGS", "GNUMAKEFLAGS", "ARCH", "SRCARCH", "SUBARCH", "CROSS_COMPILE", "LLVM", "CC", "LD", "AS", "HOSTCC",
			"CFLAGS", "LDFLAGS", "KCFLAGS", "KAFLAGS", "KCPPFLAGS", "HOSTCFLAGS", "HOSTLDFLAGS", "LOCALVERSION", "INSTALL_PATH", "O", "V", "W", "C",
			"LANG", "LANGUAGE", "CPATH", "C_INCLUDE_PATH"}, name)
	})
	return append(env, "LC_ALL=C", "KBUILD_BUILD_USER=napistall", "KBUILD_BUILD_HOST=napistall")
}

// compilerFor returns the compiler for t and its prefix, or an error that names all that is missing.
func compilerFor(ctx context.Context, spec Spec, t buildTarget, machine string) (version, prefix string, err error) {
	prefix = t.prefix(machine)
	version, err = compiler(ctx, prefix)
	if errors.Is(err, exec.ErrNotFound) {
		if err := needTools(ctx, spec, prefix); err != nil {
			return "", "", err
		}
	}
	return version, prefix, err
}
