package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/cluster/clustertest"
	"github.com/posthaste-mta/posthaste/cluster/model"
)

func TestContract(t *testing.T) {
	for _, test := range clustertest.Tests() {
		t.Run(test.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New(model.Config{}, time.Millisecond, 5*time.Millisecond, 1)
				a, b := c.Node("a"), c.Node("b")
				test.Run(t, clustertest.Fixture{A: a, B: b, Bucket: "bucket"})
				a.Close()
				b.Close()
			})
		})
	}
}
