package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/agent"
)

// newAgent is the command that the backends host and ssh start, here and on a board. It speaks only to
// them.
func newAgent() *cobra.Command {
	return &cobra.Command{
		Use:    "agent",
		Short:  "Run the trials that standard input asks for (started by run)",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE:   func(*cobra.Command, []string) error { return agent.Serve(os.Stdin, os.Stdout) },
	}
}
