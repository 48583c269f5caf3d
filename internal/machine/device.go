package machine

import (
	"fmt"
	"strconv"
	"strings"
)

// A Device is a network device with what decides how it is polled. What could not be read is nil or empty.
type Device struct {
	Name   string `json:"name"`
	Index  int    `json:"ifindex"`
	Driver string `json:"driver,omitempty"` // "airoha_eth", "veth"
	Kind   string `json:"kind,omitempty"`   // DEVTYPE: "wireguard", "wlan", "dsa", "bridge"
	Up     bool   `json:"up"`
	// Threaded is sysfs' threaded: 0 softirq, 1 threaded (5.12); nil where the kernel has no such file.
	Threaded      *int              `json:"threaded,omitempty"`
	DeferHardIRQs *int64            `json:"defer_hard_irqs,omitempty"`
	GROFlush      *int64            `json:"gro_flush_timeout_ns,omitempty"`
	RxPackets     *uint64           `json:"rx_packets,omitempty"`
	RPS           map[string]string `json:"rps,omitempty"` // queue → CPU mask, where it isn't 0
	Coalescing    *Coalescing       `json:"coalescing,omitempty"`
	// NoCoalescing says why Coalescing is nil, when the kernel was asked.
	NoCoalescing string `json:"no_coalescing,omitempty"`
	NAPIs        []NAPI `json:"napis,omitempty"`
}

// A NAPI is one instance as the netdev family of generic netlink shows it (6.8). What the kernel did not
// tell is nil.
type NAPI struct {
	ID         int    `json:"id"`
	Index      int    `json:"ifindex"`
	IRQ        *int   `json:"irq,omitempty"`
	PID        *int   `json:"pid,omitempty"` // of its thread, which in 6.12 outlives threaded mode
	Mode       string `json:"threaded,omitempty"`
	DeferIRQs  *int64 `json:"defer_hard_irqs,omitempty"`
	GROFlush   *int64 `json:"gro_flush_timeout_ns,omitempty"`
	IRQSuspend *int64 `json:"irq_suspend_timeout_ns,omitempty"`
}

// Modes of a NAPI.
const (
	ModeSoftirq  = "disabled"
	ModeThreaded = "enabled"
	ModeBusyPoll = "busy-poll" // since c18d4b190a46 (6.19); by netlink only
)

// Coalescing is how a device holds back its interrupts, as ethtool -c shows it. Nil where the driver has
// no such setting.
type Coalescing struct {
	RxUsecs  *int64 `json:"rx_usecs,omitempty"`
	RxFrames *int64 `json:"rx_frames,omitempty"`
	TxUsecs  *int64 `json:"tx_usecs,omitempty"`
	TxFrames *int64 `json:"tx_frames,omitempty"`
	Adaptive *bool  `json:"adaptive_rx,omitempty"`
}

// maxDevices bounds the list: a host of containers has thousands, and each has to be read.
const maxDevices = 4096

// Devices reads every network device from sysfs. It can wait while somebody holds RTNL: from 5.12 to 6.7
// the read of threaded asks for it.
func (s Source) Devices() ([]Device, error) {
	var devices []Device
	err := s.eachDevice(func(d Device) { devices = append(devices, d) })
	return devices, err
}

func (s Source) eachDevice(emit func(Device)) error {
	names, err := s.list("sys/class/net")
	if err != nil {
		return fmt.Errorf("list network devices: %w", err)
	}
	for _, name := range names[:min(len(names), maxDevices)] {
		if d, ok := s.device(name); ok {
			emit(d)
		}
	}
	return nil
}

// device reads one; ok is false for what is no device, like bonding_masters, and for one that is gone.
func (s Source) device(name string) (d Device, ok bool) {
	dir := "sys/class/net/" + name + "/"
	index, err := strconv.Atoi(s.text(dir + "ifindex"))
	if err != nil {
		return d, false
	}
	d = Device{Name: name, Index: index, Driver: s.link(dir + "device/driver")}
	for line := range strings.Lines(s.text(dir + "uevent")) {
		if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVTYPE="); ok {
			d.Kind = kind
		}
	}
	const iffUp = 1
	if flags, err := strconv.ParseUint(s.text(dir+"flags"), 0, 32); err == nil {
		d.Up = flags&iffUp != 0
	}
	if n := s.number(dir + "threaded"); n != nil {
		d.Threaded = new(int(*n))
	}
	d.DeferHardIRQs = s.number(dir + "napi_defer_hard_irqs")
	d.GROFlush = s.number(dir + "gro_flush_timeout")
	d.RxPackets = s.RxPackets(name)
	d.RPS = s.rps(dir)
	return d, true
}

// RxPackets is how many packets a device has received, or nil.
func (s Source) RxPackets(device string) *uint64 {
	n, err := strconv.ParseUint(s.text("sys/class/net/"+device+"/statistics/rx_packets"), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func (s Source) number(p string) *int64 {
	n, err := strconv.ParseInt(s.text(p), 0, 64)
	if err != nil {
		return nil
	}
	return &n
}

// rps returns the queues that spread their packets over other CPUs. The mask is hexadecimal, with commas.
func (s Source) rps(dir string) map[string]string {
	queues, err := s.list(dir + "queues")
	if err != nil {
		return nil
	}
	var on map[string]string
	for _, q := range queues {
		mask := s.text(dir + "queues/" + q + "/rps_cpus")
		if strings.Trim(mask, "0,") == "" {
			continue
		}
		if on == nil {
			on = map[string]string{}
		}
		on[q] = mask
	}
	return on
}

// An IRQ is where an interrupt may and does arrive.
type IRQ struct {
	Number    int    `json:"irq"`
	Name      string `json:"name,omitempty"`
	CPUs      string `json:"cpus,omitempty"`
	Effective string `json:"effective_cpus,omitempty"`
}

// IRQ reads the affinity of interrupt n.
func (s Source) IRQ(n int) IRQ {
	dir := fmt.Sprintf("proc/irq/%d/", n)
	return IRQ{Number: n, CPUs: s.text(dir + "smp_affinity_list"), Effective: s.text(dir + "effective_affinity_list")}
}
