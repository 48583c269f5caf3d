package load

import (
	"errors"
	"fmt"

	"github.com/napistall/napistall/internal/machine"
)

// busyPoll has the threads of a device's NAPIs poll without ever sleeping, in the calling thread's network
// namespace. The error matches errors.ErrUnsupported on a kernel that can't.
func busyPoll(ifindex int) error {
	all, err := machine.NAPIs()
	if err != nil {
		return err
	}
	set := 0
	for _, n := range all {
		if n.Index != ifindex {
			continue
		}
		if err := machine.SetBusyPoll(n.ID); err != nil {
			return err
		}
		set++
	}
	if set == 0 {
		return fmt.Errorf("the netdev family shows no NAPI of device %d: %w", ifindex, errors.ErrUnsupported)
	}
	return nil
}
