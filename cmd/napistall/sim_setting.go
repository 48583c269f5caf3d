package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/experiment"
)

// A setting is one key of an arm as an experiment file has it, with dots for what is nested, and its value.
type setting struct{ key, value string }

// settings writes arm as the settings that make it.
func settings(arm experiment.Arm) []setting {
	var out []setting
	add := func(key, value string, unless ...string) {
		if !slices.Contains(append(unless, ""), value) {
			out = append(out, setting{key, value})
		}
	}
	length := func(key string, d time.Duration, unless ...string) { add(key, d.String(), append(unless, "0s")...) }
	count := func(key string, n int) { add(key, strconv.Itoa(n), "0") }
	add("kernel", quoted(append([]string{arm.Kernel}, arm.KernelElse...)...))
	add("config.preempt", string(arm.Config.Preempt))
	count("config.hz", arm.Config.HZ)
	add("patch", quoted(arm.Patch...))
	add("boot", quoted(arm.Boot...))
	count("vcpus", arm.VCPUs)
	add("preempt", string(arm.Preempt), string(arm.Config.Preempt))
	add("threaded", strconv.FormatBool(arm.Threaded), "true")
	add("loop", string(arm.Loop))
	length("stall-timeout", arm.StallTimeout)
	length("exp-stall-timeout", arm.ExpStallTimeout)
	out = append(out, loadSettings(arm.Load)...)
	if arm.Load.Kind.OnNIC() {
		count("nic.ring", arm.NIC.Ring)
		length("nic.moderation", arm.NIC.Moderation)
		add("nic.latch", strconv.FormatBool(arm.NIC.Latch), "true")
		add("nic.mask-scope", arm.NIC.MaskScope)
	}
	length("model.report-cost", arm.Model.ReportCost)
	add("model.backlog", strconv.FormatBool(arm.Model.Backlog), "false")
	add("model.user", strconv.FormatBool(arm.Model.User), "false")
	for _, c := range costKeys(&arm.Model.Costs) {
		if *c.cost != 0 {
			add("model.costs."+c.key, c.String())
		}
	}
	add("probe.op", arm.Probe.Op)
	add("probe.device", arm.Probe.Device)
	length("probe.every", arm.Probe.Every)
	length("duration", arm.Duration)
	return out
}

func loadSettings(l experiment.Load) []setting {
	cpu := strconv.Itoa(l.CPU)
	if l.CPU == experiment.LastCPU {
		cpu = "last"
	}
	out := []setting{{"load.kind", string(l.Kind)}, {"load.cpu", cpu}}
	for _, n := range []struct {
		key string
		n   int
	}{{"inflight", l.Inflight}, {"batch", l.Batch}, {"window", l.Window}, {"size", l.Size}} {
		if n.n != 0 {
			out = append(out, setting{"load." + n.key, strconv.Itoa(n.n)})
		}
	}
	if l.Rate != 0 {
		out = append(out, setting{"load.rate", strconv.Itoa(l.Rate) + "/s"})
	}
	for _, d := range []struct {
		key string
		d   time.Duration
	}{{"rtt", l.RTT}, {"hold", l.Hold}} {
		if d.d != 0 {
			out = append(out, setting{"load." + d.key, d.d.String()})
		}
	}
	if l.From != "" {
		out = append(out, setting{"load.from", quoted(l.From)})
	}
	if l.Band != "" {
		out = append(out, setting{"load.band", l.Band})
	}
	return out
}

// A costKey names one of the costs.
type costKey struct {
	key  string
	cost *time.Duration
}

// String writes the cost as an experiment file has it.
func (c costKey) String() string { return max(*c.cost, 0).String() } // experiment.Never is 0s

// costKeys lists the costs in the order of docs/experiments.md.
func costKeys(c *experiment.Costs) []costKey {
	return []costKey{
		{"entry", &c.Entry}, {"poll", &c.Poll}, {"packet", &c.Packet}, {"interrupt", &c.Interrupt},
		{"unmask", &c.Unmask}, {"switch", &c.Switch}, {"wake", &c.Wake}, {"neighbour", &c.Neighbour},
	}
}

// quoted writes a list as YAML reads it back, whatever is in it; "" for none.
func quoted(list ...string) string {
	if len(list) == 0 {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "" // strings can always be written
	}
	if len(list) == 1 {
		return strings.TrimSuffix(strings.TrimPrefix(string(text), "["), "]")
	}
	return string(text)
}

// parseSetting reads KEY=VALUE as --set has it.
func parseSetting(text string) (setting, error) {
	key, value, ok := strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !ok || key == "" || value == "" {
		return setting{}, usagef("--set %q: want KEY=VALUE with a key of an experiment's arm, such as load.rate=80k/s", text)
	}
	s := setting{key, value}
	if err := s.check(); err != nil {
		return s, usagef("--set %q: %w", text, err)
	}
	return s, nil
}

// settingKey is the form of a key: words of an experiment file with dots between them.
var settingKey = regexp.MustCompile(`^[a-z][a-z-]*(\.[a-z][a-z-]*)*$`)

// check refuses what is no key or no value of one line: the text of an arm is made of it.
func (s setting) check() error {
	switch {
	case !settingKey.MatchString(s.key):
		return fmt.Errorf("%q is no key: want one of an experiment's arm, with dots for what is nested, such as load.rate", s.key)
	case s.key == "name" || s.key == "like":
		return fmt.Errorf("there is one arm, whose %s means nothing here", s.key)
	case !utf8.ValidString(s.value) || strings.ContainsFunc(s.value, unicode.IsControl):
		return fmt.Errorf("the value %q has bytes that no value of one line has", s.value)
	}
	return nil
}

// fits refuses a setting of a whole group, and one within what is no group: list has all groups' keys.
func (s setting) fits(list []setting) error {
	for _, o := range list {
		if strings.HasPrefix(o.key, s.key+".") {
			return usagef("%s is a group of keys: name one of them, such as %s", s.key, o.key)
		}
		if strings.HasPrefix(s.key, o.key+".") {
			return usagef("unknown key %s: %s has no keys of its own", s.key, o.key)
		}
	}
	return nil
}

// change returns list with s in it. What can't go together with s, or follows from what it changes, is taken out.
func change(list []setting, s setting) []setting {
	gone := func(o setting) bool { return o.key == s.key }
	switch s.key {
	case "kernel":
		if !strings.HasPrefix(s.value, `"`) {
			s.value = quoted(s.value)
		}
		gone = func(o setting) bool {
			return o.key == s.key || o.key == "patch" || o.key == "preempt" || strings.HasPrefix(o.key, "config.")
		}
	case "load.kind":
		gone = func(o setting) bool {
			return strings.HasPrefix(o.key, "load.") && o.key != "load.hold" && o.key != "load.cpu" || strings.HasPrefix(o.key, "nic.") || o.key == "duration" && s.value == "none"
		}
	case "load.hold":
		gone = func(o setting) bool { return o.key == s.key || o.key == "duration" }
	case "load.rate":
		if !strings.HasSuffix(s.value, "/s") {
			s.value += "/s"
		}
	case "config.preempt":
		gone = func(o setting) bool { return o.key == s.key || o.key == "preempt" }
	}
	return append(slices.DeleteFunc(slices.Clone(list), gone), s)
}

// armOfSettings parses the arm that list makes, so that each value is held against what a file may say.
func armOfSettings(list []setting) (experiment.Arm, error) {
	e, err := experiment.Parse("settings", []byte("name: sweep\narms:\n- name: point\n"+yamlOf(list, "  ")))
	if err != nil {
		return experiment.Arm{}, err
	}
	return e.Arms[0], nil
}

// yamlOf writes settings as block mappings, nested where keys have dots, keys in their first order.
func yamlOf(list []setting, indent string) string {
	var b strings.Builder
	for i, s := range list {
		group, _, nested := strings.Cut(s.key, ".")
		if !nested {
			fmt.Fprintf(&b, "%s%s: %s\n", indent, s.key, s.value)
			continue
		}
		same := func(o setting) bool { return strings.HasPrefix(o.key, group+".") }
		if slices.IndexFunc(list, same) != i {
			continue // written with the first of its group
		}
		var members []setting
		for _, o := range list {
			if same(o) {
				members = append(members, setting{strings.TrimPrefix(o.key, group+"."), o.value})
			}
		}
		fmt.Fprintf(&b, "%s%s:\n%s", indent, group, yamlOf(members, indent+"  "))
	}
	return b.String()
}
