package load

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
)

// external finds the device that External watches, and changes nothing.
func (r *Running) external() error {
	dev := r.options.Device
	if dev == "" {
		return fmt.Errorf("load %s: traffic from elsewhere needs a real device, as --device names it: %w", experiment.External, errors.ErrUnsupported)
	}
	if filepath.Base(dev) != dev {
		return fmt.Errorf("load %s: %q is no name of a device", experiment.External, dev)
	}
	i, err := net.InterfaceByName(dev)
	if err != nil {
		return fmt.Errorf("load %s: find %s: %w", experiment.External, dev, err)
	}
	r.stats, err = os.Open("/sys/class/net/" + dev + "/statistics/rx_packets")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("load %s: %s is in another network namespace than /sys: %w", experiment.External, dev, errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("open the count of packets: %w", err)
	}
	r.Device, r.Ifindex = dev, i.Index
	if r.options.Threaded {
		r.Thread, err = machine.Source{}.Busiest("napi/" + dev + "-")
	}
	return err
}
