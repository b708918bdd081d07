package mail

import (
	"fmt"
	"testing"
)

// The spool keeps mail under these numbers.
func TestBucketsNeverChange(t *testing.T) {
	for f, want := range map[Flow]Bucket{
		{}: 0,
		{Class: "normal", Tenant: "local", Flow: "otp@shop.example"}:       900649,
		{Class: "bulk", Tenant: "192.0.2.0/24", Flow: "news@list.example"}: 531821,
		{Class: "normal", Tenant: "uid:33", Flow: "<>"}:                    890281,
		{Flow: "<>"}: 549289,
	} {
		if got := f.Bucket(); got != want {
			t.Errorf("%+v has bucket %d, want %d", f, got, want)
		}
	}
}

// The classes that exist without configuration, and mail that was not classified, have
// buckets of their own; a class's buckets are those of its tenants, theirs those of flows.
func TestPartsOfBuckets(t *testing.T) {
	if n, b := ClassBucket("normal"), ClassBucket("bulk"); n == b || n == 0 || b == 0 {
		t.Errorf("the classes normal and bulk have %d and %d", n, b)
	}
	tenants, flows := make(map[Bucket]int), make(map[Bucket]int)
	const n = 64 * 256 * 10
	for i := range n {
		f := Flow{Class: "bulk", Tenant: fmt.Sprintf("192.0.%d.0/24", i%1000), Flow: fmt.Sprintf("user%d@example.com", i)}
		b := f.Bucket()
		if b == 0 || b >= BucketEnd || b.Class() != ClassBucket("bulk") || b.Tenant()>>tenantBits != b.Class() {
			t.Fatalf("%+v has bucket %d", f, b)
		}
		tenants[b.Tenant()]++
		flows[b%256]++
	}
	if len(tenants) != 64 || len(flows) != 256 {
		t.Errorf("%d tenants, %d flows", len(tenants), len(flows))
	}
	for _, of := range []map[Bucket]int{tenants, flows} {
		for b, count := range of {
			if mean := n / len(of); count < mean/2 || count > 2*mean {
				t.Errorf("%d flows have %d in their buckets, of %d", count, b, n)
			}
		}
	}
}
