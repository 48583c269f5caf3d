package probe

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
)

// The stacks are from 6.12.117 (x86_64), 7.2.13 (armhf, wchan) and 6.18.44.
func TestAttribute(t *testing.T) {
	for _, tt := range []struct {
		stack string // innermost first
		want  rcu.Wait
	}{
		{"synchronize_rcu_expedited synchronize_net unregister_netdevice_many_notify rtnl_dellink rtnetlink_rcv_msg netlink_rcv_skb", rcu.SynchronizeNet},
		{"mutex_lock exp_funnel_lock synchronize_rcu_expedited dev_deactivate_many rtnl_dellink", rcu.SynchronizeNet},
		{"__wait_rcu_gp synchronize_rcu_normal synchronize_rcu __x64_sys_membarrier do_syscall_64", rcu.SynchronizeNet},
		{"__flush_work flush_work flush_all_backlogs unregister_netdevice_many_notify rtnl_dellink", rcu.FlushWork},
		{"__flush_work cancel_delayed_work_sync dev_close rtnl_dellink", rcu.FlushWork},
		{"rcu_barrier netdev_run_todo rtnl_dellink rtnetlink_rcv_msg", rcu.Barrier},
		{"__mutex_lock rcu_barrier param_set_do_rcu_barrier param_attr_store", rcu.Barrier},
		{"rcu_barrier netdev_wait_allrefs_any netdev_run_todo rtnl_dellink", rcu.Refs},
		{"rtnl_lock netdev_wait_allrefs_any netdev_run_todo", rcu.Refs},
		{"msleep netdev_wait_allrefs netdev_run_todo", rcu.Refs},
		{"__mutex_lock rtnl_lock rtnetlink_rcv_msg", rcu.RTNL},
		{"schedule_preempt_disabled __mutex_lock rtnetlink_rcv_msg netlink_rcv_skb", rcu.RTNL},
		{"__mutex_lock mutex_lock rtnl_net_lock rtnl_dellink", rcu.RTNL},
		{"mutex_lock some_driver_lock rtnl_dellink", rcu.OtherWait},
		{"rtnetlink_rcv_msg", rcu.RTNL}, // wchan
		{"synchronize_rcu_normal", rcu.SynchronizeNet},
		{"rcu_barrier", rcu.Barrier},
		{"pipe_read", rcu.OtherWait},
		{"netlink_sendmsg rtnetlink_rcv_msg", rcu.OtherWait}, // runs there, does not wait
		{"", rcu.OtherWait},
	} {
		if got := Attribute(strings.Fields(tt.stack)); got != tt.want {
			t.Errorf("Attribute(%q) = %s; want %s", tt.stack, got, tt.want)
		}
	}
}

func TestParseStack(t *testing.T) {
	for text, want := range map[string][]string{
		"[<0>] synchronize_rcu_expedited+0x1a/0x30\n[<0>] rtnl_dellink.constprop.0+0x1/0x2\n[<0>] veth_dellink+0x1/0x2 [veth]\n": {
			"synchronize_rcu_expedited", "rtnl_dellink", "veth_dellink"},
		"[<ffffffff8106d2c6>] rcu_barrier+0x16/0x20\n[<ffffffffffffffff>] 0xffffffffffffffff\n": {"rcu_barrier"},
		"rcu_barrier": {"rcu_barrier"},
		"0":           nil,
		"":            nil,
		"[<0>] \n":    nil,
	} {
		if got := functions(parseStack(text)); !cmp.Equal(got, want) {
			t.Errorf("parseStack(%q) = %q; want %q", text, got, want)
		}
	}
}

func TestSite(t *testing.T) {
	for text, want := range map[string]string{
		"[<0>] synchronize_rcu_expedited+0x1a/0x30\n[<0>] synchronize_net+0x1/0x2\n[<0>] unregister_netdevice_many_notify+0x2f1/0x7a0\n[<0>] rtnl_dellink+0x1/0x2\n": "unregister_netdevice_many_notify+0x2f1",
		"[<0>] rcu_barrier+0x16/0x20\n[<0>] netdev_run_todo+0x9f/0x3b0 [x]\n":                                                                                        "netdev_run_todo+0x9f",
		"[<0>] rcu_barrier+0x16/0x20\n[<0>] netdev_wait_allrefs_any.isra.0+0x9f/0x3b0\n[<0>] netdev_run_todo+0x33/0x99\n":                                            "netdev_run_todo+0x33",
		"[<0>] rcu_barrier+0x16/0x20\n": "",
		"rcu_barrier":                   "",
		"[<0>] pipe_read+0x1/0x2\n[<0>] vfs_read+0x1/0x2\n": "",
		"": "",
	} {
		if got := site(parseStack(text)); got != want {
			t.Errorf("site(%q) = %q; want %q", text, got, want)
		}
	}
}

func FuzzParseStack(f *testing.F) {
	f.Add("[<0>] rcu_barrier+0x1/0x2 [x]\n")
	f.Fuzz(func(t *testing.T, text string) {
		frames := parseStack(text)
		stack := functions(frames)
		for _, name := range stack {
			if name == "" || strings.ContainsAny(name, "+ .\n") {
				t.Errorf("parseStack(%q) has %q", text, name)
			}
		}
		if at := site(frames); strings.ContainsAny(at, " /\n") {
			t.Errorf("site(%q) = %q", text, at)
		}
		if w := Attribute(stack); !slices.Contains(rcu.Waits(), w) {
			t.Errorf("Attribute(%q) = %q", stack, w)
		}
	})
}

func TestOurs(t *testing.T) {
	for stack, want := range map[string]bool{"futex_do_wait": true, "futex_wait_queue __futex_wait do_futex": true, "rcu_barrier": false} {
		if got := ours(strings.Fields(stack)); got != want {
			t.Errorf("ours(%q) = %v; want %v", stack, got, want)
		}
	}
}
