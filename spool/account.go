package spool

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// An account is what messages are counted for. Its key in the store is the byte of its
// level and its names.
type account struct {
	level        byte
	tenant, name string
}

const (
	accountClass  = 'c'
	accountTenant = 't'
	accountFlow   = 'f'
	noAccount     = '?' // of doubtKey
)

// Sums are what is counted for each account. One that is zero is not there.
type sums map[account]mail.Usage

func (s sums) add(a account, u mail.Usage) {
	if u = s[a].Plus(u); u == (mail.Usage{}) {
		delete(s, a)
	} else {
		s[a] = u
	}
}

// accountsOf returns the accounts of a flow: its class, tenant and flow. Mail that was not
// classified has none.
func accountsOf(f mail.Flow, level mail.CountLevel) (list [3]account, n int) {
	if f == (mail.Flow{}) {
		return list, 0
	}
	list = [3]account{{level: accountClass, name: f.Class}, {level: accountTenant, name: f.Tenant}, {level: accountFlow, tenant: f.Tenant, name: f.Flow}}
	if level < mail.CountFlows {
		return list, 2
	}
	return list, 3
}

// key returns the key of an account's sum. Names have no control characters.
func (a account) key() []byte {
	k := append(make([]byte, 0, 3+len(a.tenant)+len(a.name)), keyCount, a.level)
	if a.level == accountFlow {
		k = append(append(k, a.tenant...), 0)
	}
	return append(k, a.name...)
}

// parseAccount is the inverse of account.key.
func parseAccount(k []byte) (a account, ok bool) {
	if len(k) < 2 || k[0] != keyCount {
		return a, false
	}
	a.level, a.name = k[1], string(k[2:])
	if a.level == accountFlow {
		i := bytes.IndexByte(k[2:], 0)
		if i < 0 {
			return a, false
		}
		a.tenant, a.name = string(k[2:2+i]), string(k[3+i:])
	}
	return a, true
}

// readSum reads a sum.
func (s *Spool) readSum(a account) (u mail.Usage, err error) {
	value, closer, err := s.db.Get(a.key())
	if errors.Is(err, pebble.ErrNotFound) {
		return u, nil
	}
	if err != nil {
		return u, fmt.Errorf("spool: read a count: %w", err)
	}
	u, err = decodeSum(a.key(), value)
	return u, errors.Join(err, closer.Close())
}

func decodeSum(k, value []byte) (u mail.Usage, err error) {
	payload, err := unseal(k, value)
	if err != nil {
		return u, fmt.Errorf("spool: read a count: %w", err)
	}
	d := decoder{rest: string(payload)}
	u = mail.Usage{Messages: int64(d.instant()), Octets: int64(d.instant())}
	return u, d.check("count")
}
