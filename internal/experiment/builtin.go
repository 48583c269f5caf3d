package experiment

import (
	"embed"
	"strings"
)

// The built-in experiments are files like any user's: they are what run --print shows.
//
//go:embed builtin/*.yaml
var builtinFiles embed.FS

// A BuiltinInfo names a built-in experiment and says in a few words what it is about.
type BuiltinInfo struct {
	Name  string
	About string
}

// Builtins lists the built-in experiments, the one that runs by default first. About is from the first
// line of the file, "# NAME: ABOUT".
func Builtins() []BuiltinInfo {
	var list []BuiltinInfo
	for _, name := range []string{"mainline", "seed", "band", "models", "here"} {
		src, _ := Builtin(name)
		first, _, _ := strings.Cut(string(src), "\n")
		list = append(list, BuiltinInfo{name, strings.TrimPrefix(first, "# "+name+": ")})
	}
	return list
}

// Builtin returns the file of the built-in experiment called name. The caller owns the bytes.
func Builtin(name string) (src []byte, ok bool) {
	if !validName(name) {
		return nil, false
	}
	src, err := builtinFiles.ReadFile("builtin/" + name + ".yaml")
	return src, err == nil
}
