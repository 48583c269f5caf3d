// Command guest is what napistall embeds for guests: its agent and nothing else, a third of the whole
// program's size, which under emulation is seconds of each boot. It only makes sense as process 1.
package main

import (
	"fmt"
	"os"

	"github.com/napistall/napistall/internal/agent"
)

func main() {
	if !agent.IsGuest() {
		fmt.Fprintln(os.Stderr, "guest: this is napistall's part inside a guest, where it is process 1")
		os.Exit(69)
	}
	agent.Guest()
}
