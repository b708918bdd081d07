// Command image writes an OCI image of posthaste as a folder in OCI layout, for one or several
// platforms. It needs no daemon and no registry: the image has nothing but the program,
// certificates of authorities, and an empty queue directory.
//
//	image -o DIRECTORY -version V -ca FILE amd64=PROGRAM arm64=PROGRAM
//
// All times in it are that of the environment variable SOURCE_DATE_EPOCH, in seconds since 1970, so
// that two runs write the same. "skopeo copy oci:DIRECTORY docker://…" uploads it.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is whom the program runs as in the image: a number that no distribution gives away.
const user = 65532

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("o", "", "the `directory` to write")
	version := flag.String("version", "", "the program's version")
	authorities := flag.String("ca", "", "a `file` with certificates of authorities")
	flag.Parse()
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	at := time.Unix(epoch, 0).UTC()
	if *out == "" || *version == "" || *authorities == "" || flag.NArg() == 0 {
		return fmt.Errorf("usage: image -o DIRECTORY -version V -ca FILE ARCH=PROGRAM…")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range flag.Args() {
		arch, program, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCH=PROGRAM", arg)
		}
		image, err := imageOf(arch, program, *authorities, *version, at)
		if err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	_, err = layout.Write(*out, index)
	return err
}

func imageOf(arch, program, authorities, version string, at time.Time) (v1.Image, error) {
	content, err := layer(program, authorities, at)
	if err != nil {
		return nil, err
	}
	one, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: one, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "packaging/image"}}); err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Created, file.OS, file.Architecture = v1.Time{Time: at}, "linux", arch
	file.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/posthaste"}, Cmd: []string{"serve", "--config", "/etc/posthaste/posthaste.toml"},
		User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/var/spool/posthaste", StopSignal: "SIGTERM",
		Env:     []string{"PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "POSTHASTE_QUEUE_DIRECTORY=/var/spool/posthaste"},
		Volumes: map[string]struct{}{"/var/spool/posthaste": {}}, ExposedPorts: map[string]struct{}{"2525/tcp": {}},
		Labels: map[string]string{"org.opencontainers.image.title": "posthaste", "org.opencontainers.image.version": version,
			"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://github.com/posthaste-mta/posthaste"},
	}
	return mutate.ConfigFile(image, file)
}

// configuration is for an image that is started as it is: the port is not one below 1024, since the
// program is not root, and the networks are those that containers have.
const configuration = `# Mount a file of your own over this one; "posthaste config show --example" explains all of it.
queue_directory = "/var/spool/posthaste"
listen = ["0.0.0.0:2525"]
mynetworks = ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]
`

// layer returns the only layer, as a tar archive.
func layer(program, authorities string, at time.Time) ([]byte, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	trusted, err := os.ReadFile(authorities)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name  string
		mode  int64
		owner int
		data  []byte // nil: a directory
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nposthaste:x:%d:%d:posthaste:/var/spool/posthaste:/sbin/nologin\n", user, user)},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\nposthaste:x:%d:\n", user)},
		{"etc/posthaste/", 0o755, 0, nil},
		{"etc/posthaste/posthaste.toml", 0o644, 0, []byte(configuration)},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, trusted},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/posthaste", 0o755, 0, binary},
		{"var/", 0o755, 0, nil},
		{"var/spool/", 0o755, 0, nil},
		{"var/spool/posthaste/", 0o711, user, nil},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)), ModTime: at, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if f.data == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}
