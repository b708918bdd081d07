package dkim

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/dkim/keyring"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// rsaBits is the size of new RSA keys: receivers may demand as much (RFC 8301 3.2), and the
// record of a larger one does not fit into an answer of 512 bytes.
const rsaBits = 2048

// A keygenPlan is what keys to make.
type keygenPlan struct {
	domain, selector, kind, directory string
	config                            string
}

func newKeygenCommand() *cobra.Command {
	var p keygenPlan
	cmd := &cobra.Command{
		Use:        "keygen DOMAIN",
		SuggestFor: []string{"genkey", "generate", "new"},
		Short:      "Make private keys for a domain, and print their records",
		Long: `Make private keys with which mail from a domain is signed: one for RSA with 2048 bits,
which all receivers verify, and one for Ed25519, which some do. Each has a selector of its
own. Only their owner can read the files, and no file is ever replaced. If root makes them,
they belong to the owner of their directory, which should be the user that runs the daemon.

The command prints the records to publish and the tables for the configuration. Add the tables
when "posthaste dkim check" finds the records, or at once with a valid_from some days ahead.`,
		Example: `  posthaste dkim keygen example.com --config posthaste.toml
  posthaste dkim keygen example.com --selector 2027-05 --type rsa --directory /etc/posthaste/dkim`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.domain = args[0]
			return p.run(cmd.OutOrStdout(), time.Now())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&p.selector, "selector", "s", "", "`selector`; the kind of key is appended if there are two (default: year and month)")
	f.StringVarP(&p.kind, "type", "t", "both", "`kind` of key: rsa, ed25519 or both")
	f.StringVarP(&p.directory, "directory", "d", "", "`directory` of the files (default: dkim_directory)")
	configFlag(f, &p.config)
	return cmd
}

// A newKey is a key to be made.
type newKey struct {
	algorithm      dkim.Algorithm
	selector, file string
}

func (p *keygenPlan) run(out io.Writer, now time.Time) error {
	keys, err := p.keys(now)
	if err != nil {
		return err
	}
	if err := makeDirectory(p.directory); err != nil {
		return exit.New(exit.IO, err, "")
	}
	for _, k := range keys {
		if _, err := os.Lstat(k.file); err == nil {
			return exit.New(exit.IO, fmt.Errorf("%s exists, and is not replaced", k.file), "Choose another --selector: mail that was signed with that key would not verify any more.")
		}
	}
	var records, tables strings.Builder
	for _, k := range keys {
		private, err := makeKey(k)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s key of %d bits\n", k.file, k.algorithm, private.Bits())
		fmt.Fprintln(&records, dkim.ZoneLine(k.selector, p.domain, dkim.Record(private)))
		fmt.Fprintf(&tables, "\n[dkim.%s]\ndomain = [\"%s\", \"*.%[2]s\"]\nselector = \"%s\"\nkey = \"%s\"\n", tableName(p.domain, k.selector), p.domain, k.selector, p.path(k.file))
	}
	_, err = fmt.Fprintf(out, "\nPublish in the DNS:\n\n%s\nThen add to the configuration:\n%s", records.String(), tables.String())
	return err
}

// keys returns the keys to make, and completes the plan.
func (p *keygenPlan) keys(now time.Time) ([]newKey, error) {
	domain, ok := dkim.ParseDomain(p.domain)
	if !ok {
		return nil, exit.Usagef("%q is not a domain", p.domain)
	}
	p.domain = domain
	if p.selector == "" {
		p.selector = now.UTC().Format("200601")
	}
	cfg, err := configfile.Read(p.config)
	if err != nil {
		return nil, err
	}
	if p.directory == "" {
		p.directory = cfg.DKIMDirectory()
	}
	kinds := map[string][]dkim.Algorithm{"rsa": {dkim.RSA}, "ed25519": {dkim.Ed25519}, "both": {dkim.RSA, dkim.Ed25519}}[p.kind]
	if kinds == nil {
		return nil, exit.Usagef("--type is %q: want rsa, ed25519 or both", p.kind)
	}
	var keys []newKey
	for _, a := range kinds {
		k := newKey{algorithm: a, selector: p.selector}
		if len(kinds) > 1 {
			k.selector += "-" + a.String()
		}
		if !dkim.ValidSelector(k.selector) {
			return nil, exit.Usagef("--selector is %q: want a part of a name in the DNS, of letters, digits and -", p.selector)
		}
		k.file = filepath.Join(p.directory, p.domain+"."+k.selector+".pem")
		keys = append(keys, k)
	}
	return keys, nil
}

// path returns the path of a file as in the configuration.
func (p *keygenPlan) path(file string) string {
	cfg, err := configfile.Read(p.config)
	if err == nil && filepath.Clean(cfg.DKIMDirectory()) == filepath.Clean(p.directory) {
		return filepath.Base(file)
	}
	if whole, err := filepath.Abs(file); err == nil {
		return whole
	}
	return file
}

// makeDirectory makes the directory for keys if it is not there, for the owner of the one
// above it alone.
func makeDirectory(dir string) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return keyring.Adopt(dir)
}

func makeKey(k newKey) (dkim.PrivateKey, error) {
	var private any
	_, private, err := ed25519.GenerateKey(nil)
	if k.algorithm == dkim.RSA {
		private, err = rsa.GenerateKey(nil, rsaBits)
	}
	if err != nil {
		return dkim.PrivateKey{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return dkim.PrivateKey{}, err
	}
	if err := keyring.Write(k.file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return dkim.PrivateKey{}, exit.New(exit.IO, err, "")
	}
	return keyring.Read(k.file) // as the daemon does
}

// tableName returns a name for the table of a key.
func tableName(domain, selector string) string {
	clean := func(r rune) rune {
		if r == '.' {
			return '_'
		}
		return r
	}
	name := strings.Map(clean, domain+"-"+selector)
	return name[max(0, len(name)-64):]
}
