package doctor

import "strings"

// A Habit is what is known of a driver's way with threaded NAPI.
type Habit struct {
	Driver string
	Forced bool     // it turns threading on by itself
	Hidden []string // how the devices are called on which it polls and that it never registers
	Says   string
	Source string
}

// Habits returns what is known of drivers. It is data: an entry needs a source.
func Habits() []Habit {
	return []Habit{
		{Driver: "airoha_eth", Forced: true, Hidden: []string{"qdma_eth"},
			Says: "airoha_eth turns threading on itself, on a dummy device named qdma_eth that sysfs and netlink don't show: there is nothing to switch off. " +
				"It turns its interrupt moderation off at init, and completes with napi_complete(), so that defer-hard-irqs and gro-flush-timeout never act",
			Source: "drivers/net/ethernet/airoha/airoha_eth.c in 6.12.117 and 7.3.4; openwrt/openwrt#24732"},
		{Driver: "mt76", Forced: true, Hidden: []string{"phy"},
			Says:   "mt76 turns threading on itself, on a dummy device of each radio: there is nothing to switch off",
			Source: "openwrt/openwrt#24732; openwrt/mt76#716, whose thread is napi/phy0-9"},
		{Driver: "mtk_eth_soc",
			Says:   "mtk_eth_soc is threaded only with a patch of OpenWrt's, and its adaptive moderation (net_dim) kept the loop from starving anybody",
			Source: "openwrt/openwrt#24732"},
		{Driver: "wireguard",
			Says:   "wireguard has one NAPI instance for each peer, made with the first peer: threaded can't be written before",
			Source: "projectcalico/calico#9815, #10339"},
	}
}

// habitOf returns the habit of a driver, or of whoever calls a hidden device like that; nil if none is known.
func habitOf(driver, device string) *Habit {
	for _, h := range Habits() {
		known := driver != "" && (driver == h.Driver || h.Driver == "mt76" && (strings.HasPrefix(driver, "mt76") || strings.HasPrefix(driver, "mt79")))
		for _, prefix := range h.Hidden {
			known = known || driver == "" && strings.HasPrefix(device, prefix)
		}
		if known {
			return &h
		}
	}
	return nil
}
