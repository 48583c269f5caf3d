// Command guest is what napistall embeds for guests and boards: its agent and nothing else, a third of the
// whole program's size, which under emulation is seconds of each boot. It only makes sense as process 1, or
// as "guest agent" with whoever asks for trials on its standard input.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/napistall/napistall/internal/agent"
)

func main() {
	switch {
	case agent.IsGuest():
		agent.Guest()
	case slices.Equal(os.Args[1:], []string{"agent"}):
		if err := agent.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "guest: this is napistall's part inside a guest, where it is process 1, or on a board")
		os.Exit(69)
	}
}
