package cluster

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func anyRegister() *rapid.Generator[Register] {
	return rapid.Custom(func(t *rapid.T) Register {
		return Register{
			Node:    rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(t, "node"),
			Topic:   rapid.StringMatching(`[a-z]{1,3}(\.[a-z]{1,3}){0,2}`).Draw(t, "topic"),
			Value:   rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value"),
			TTL:     time.Duration(rapid.Int64Range(10, 600_000).Draw(t, "ttl")) * time.Millisecond,
			Version: Version{rapid.Uint64().Draw(t, "incarnation"), rapid.Uint64().Draw(t, "sequence")},
		}
	})
}

func same(a, b Register) bool {
	return a.Node == b.Node && a.Topic == b.Topic && a.TTL == b.TTL && a.Version == b.Version && bytes.Equal(a.Value, b.Value)
}

func TestRegisterRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRegister().Draw(t, "register")
		got, err := ParseRegister(AppendRegister(nil, r), r.Topic)
		if err != nil || !same(got, r) {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
	})
}

// Nodes of two versions understand each other: these bytes never change for format 1.
func TestRegisterFormat(t *testing.T) {
	r := Register{Node: "mx-1", Topic: "conns", Value: []byte("v"), TTL: 3 * time.Second, Version: Version{300, 2}}
	if got := hex.EncodeToString(AppendRegister(nil, r)); got != "01046d782d31ac0202b81776" {
		t.Errorf("encoded as %s", got)
	}
}

// What comes from the network is anything; what is taken is valid.
func FuzzParseRegister(f *testing.F) {
	f.Add(AppendRegister(nil, Register{Node: "a", Value: []byte("v"), TTL: time.Second, Version: Version{1, 1}}), "t")
	f.Add([]byte{registerFormat, 200}, "t")
	f.Add([]byte{registerFormat, 1, 'a', 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, "t")
	f.Add([]byte{2}, "t.")
	f.Fuzz(func(t *testing.T, b []byte, topic string) {
		r, err := ParseRegister(b, topic)
		if err != nil {
			return
		}
		if !ValidName(r.Node) || r.Topic != topic || CheckRegister(topic, r.Value, r.TTL) != nil {
			t.Fatalf("%+v was taken", r)
		}
		if again, err := ParseRegister(AppendRegister(nil, r), topic); err != nil || !same(r, again) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}
