// Package napistall is the root of the module: its test holds the repository to its conventions.
// The program is cmd/napistall; the one public package is klog.
package napistall
