package spool

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// An image is the files of a spool, by name; directories end in a slash.
type image map[string][]byte

func imageOf(t testing.TB, fs vfs.FS, dir string) image {
	t.Helper()
	img := make(image)
	var walk func(dir string)
	walk = func(dir string) {
		img[dir+"/"] = nil
		names, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			name = path.Join(dir, name)
			info, err := fs.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(name)
				continue
			}
			f, err := fs.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			data := make([]byte, info.Size())
			if _, err := f.ReadAt(data, 0); err != nil && len(data) > 0 {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			img[name] = data
		}
	}
	walk(dir)
	return img
}

func (img image) fs(t testing.TB) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	for name := range img {
		dir := name
		if !strings.HasSuffix(name, "/") {
			dir = path.Dir(name)
		}
		if err := fs.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range img {
		if strings.HasSuffix(name, "/") {
			continue
		}
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.Clone(data)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

func (img image) names(match func(name string) bool) (names []string) {
	for name := range img {
		if !strings.HasSuffix(name, "/") && match(path.Base(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// copies returns the names of the copies of the MANIFEST.
func (img image) copies() []string {
	return slices.DeleteFunc(img.names(func(string) bool { return true }), func(n string) bool { return path.Base(path.Dir(n)) != manifestDir })
}

// with returns the image with other data in one file, or without that file if data
// is nil.
func (img image) with(name string, data []byte) image {
	other := make(image, len(img))
	for n, d := range img {
		other[n] = d
	}
	if other[name] = data; data == nil {
		delete(other, name)
	}
	return other
}

func (img image) flipped(name string, bit int) image {
	data := bytes.Clone(img[name])
	data[bit/8] ^= 1 << (bit % 8)
	return img.with(name, data)
}

// spooled creates a spool with messages of all kinds in all areas, in tables,
// blobs, files and the log. It returns its files after a stop or a kill, and for
// each message the number of its content in noise. There is one spool of each kind,
// for all tests.
func spooled(t testing.TB, killed bool) (image, map[mail.QueueID]int) {
	t.Helper()
	if killed {
		return killedSpool(t)
	}
	return stoppedSpool(t)
}

var killedSpool, stoppedSpool = onlyOnce(true), onlyOnce(false)

func onlyOnce(killed bool) func(testing.TB) (image, map[mail.QueueID]int) {
	var once sync.Once
	var img image
	var waiting map[mail.QueueID]int
	return func(t testing.TB) (image, map[mail.QueueID]int) {
		t.Helper()
		once.Do(func() { img, waiting = newSpooled(t, killed) })
		if img == nil {
			t.Fatal("there is no spool: see the test that made it")
		}
		return img, waiting
	}
}

func newSpooled(t testing.TB, killed bool) (image, map[mail.QueueID]int) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	cfg := small(fs)
	s := mustOpen(t, cfg)
	waiting := make(map[mail.QueueID]int)
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			a := accept(t, s, mail.Envelope{Sender: mail.Address(fmt.Sprintf("s%d@example.com", i))}, addresses(1+i%3), noise(i, flipSize(i)))
			waiting[a.Envelope.ID] = i
			c := mail.Change{ID: a.Envelope.ID, Place: a.Place}
			switch i % 5 {
			case 0:
				c.Op, c.Due, c.At = mail.ChangeDefer, mail.Instant(5+i), 1
				c.Outcomes = []mail.Outcome{busy(0, 1)}
			case 1:
				c.Op, c.Reason = mail.ChangeHold, "held"
			case 2:
				c.Op = mail.ChangeRemove
				delete(waiting, a.Envelope.ID)
			default:
				continue
			}
			apply(t, s, c)
		}
	}
	fill(0, 120)
	mustClose(t, s)
	s = mustOpen(t, cfg)
	fill(120, 240)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	fill(240, 280)
	if killed {
		img := imageOf(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}), "/spool")
		mustClose(t, s)
		return img, waiting
	}
	mustClose(t, s)
	return imageOf(t, fs, "/spool"), waiting
}

func flipSize(i int) int {
	switch i % 7 {
	case 3:
		return 9000 // a file
	case 5:
		return 2500 // a blob
	}
	return 300
}

// A fate is the outcome for the messages of an image.
type fate struct {
	refused  error // why the spool was not opened
	read     int
	told     int // unreadable messages that are listed
	vanished []mail.QueueID
	unnamed  []mail.QueueID // of these, those that no alarm names, directly or within a range
	alarms   alarms
}

func (f *fate) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d messages were read, %d listed as damaged, %d are missing %.3v; alarms:", f.read, f.told, len(f.vanished), f.vanished[:min(3, len(f.vanished))])
	for i, a := range f.alarms.list {
		if i == 40 {
			b.WriteString("…")
			break
		}
		fmt.Fprintf(&b, " [%s: %.150s]", a.Text, strings.ReplaceAll(fmt.Sprint(a.Err), "\n", " "))
	}
	return b.String()
}

// fateOf opens an image, some time after it was made, and looks for the messages that
// were in it. earlier are alarms that may already have named some.
func fateOf(t testing.TB, img image, waiting map[mail.QueueID]int, earlier ...Alarm) *fate {
	t.Helper()
	fs := img.fs(t)
	f := &fate{alarms: alarms{list: earlier}}
	cfg := small(fs)
	now := cfg.Now
	cfg.Now = func() mail.Instant { return now() + mail.Instant(time.Hour) }
	cfg.OnAlarm = f.alarms.add
	s, err := Open(cfg)
	if err != nil {
		f.refused = err
		after := imageOf(t, fs, "/spool")
		for name := range img {
			if _, there := after[name]; !there && isMail(name) {
				t.Errorf("refused (%v), but %s was deleted", err, name)
			}
		}
		return f
	}
	<-s.work.swept
	listed := make(map[mail.QueueID]bool)
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		list, _, more, err := s.List(ctxTest, area, mail.Cursor{}, 10_000)
		if err != nil || more {
			t.Errorf("list of %s: more %v, error %v", area, more, err)
		}
		for _, m := range list {
			listed[m.Envelope.ID] = true
		}
	}
	for id, i := range waiting {
		content, err := contentOf(s, id)
		_, _, _, openErr := s.Open(ctxTest, id, 10)
		switch {
		case err == nil && !bytes.Equal(content, noise(i, flipSize(i))):
			t.Errorf("message %s has the wrong content", id)
		case err == nil && openErr == nil && listed[id]:
			f.read++
		case listed[id]:
			f.told++
		default:
			f.vanished = append(f.vanished, id)
		}
	}
	mustClose(t, s)
	for _, id := range f.vanished {
		if !f.alarms.name(id) {
			f.unnamed = append(f.unnamed, id)
		}
	}
	return f
}

// The ranges of queue IDs in alarms.
var (
	keysRange = regexp.MustCompile(`keys '[ms]' after (\w+)(?: and before (\w+))?`)
	tableLoss = regexp.MustCompile(`keys '[bmrsx]'(?: from (\w+))?(?: to (\w+))?`)
	logRange  = regexp.MustCompile(`accepted(?: between the messages (\w+) and (\w+)| after the message (\w+)| before the message (\w+))`)
)

// contain reports whether there is an alarm that contains all texts.
func (a *alarms) contain(texts ...string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.list, func(alarm Alarm) bool {
		text := fmt.Sprintf("%s: %v", alarm.Text, alarm.Err)
		return !slices.ContainsFunc(texts, func(part string) bool { return !strings.Contains(text, part) })
	})
}

// name reports whether an alarm names a message: by its queue ID, or by a range
// between two that could be read.
func (a *alarms) name(id mail.QueueID) bool {
	parse := func(texts ...string) (n mail.QueueID, ok bool) {
		for _, text := range texts {
			if n, err := mail.ParseQueueID(text); err == nil {
				return n, true
			}
		}
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, alarm := range a.list {
		text := fmt.Sprintf("%s: %v", alarm.Text, alarm.Err)
		if alarm.ID == id || strings.Contains(text, id.String()) {
			return true
		}
		for _, m := range keysRange.FindAllStringSubmatch(text, -1) {
			from, _ := parse(m[1])
			to, bounded := parse(m[2])
			if from < id && (!bounded || id < to) {
				return true
			}
		}
		if strings.HasPrefix(alarm.Text, "a table of the store") {
			for _, m := range tableLoss.FindAllStringSubmatch(text, -1) {
				from, above := parse(m[1])
				to, below := parse(m[2])
				if (!above || from <= id) && (!below || id <= to) {
					return true
				}
			}
		}
		for _, m := range logRange.FindAllStringSubmatch(text, -1) {
			from, above := parse(m[1], m[3])
			to, below := parse(m[2], m[4])
			if (above || below) && (!above || from < id) && (!below || id < to) {
				return true
			}
		}
	}
	return false
}

// isMail reports whether a file may hold mail.
func isMail(name string) bool {
	switch path.Ext(name) {
	case ".sst", ".blob", ".log":
		return true
	}
	return strings.Contains(name, "/body/") || strings.HasPrefix(path.Base(name), "MANIFEST")
}

// flipStep returns the step between the flips, or crashes, that are tried: sample,
// unless POSTHASTE_FLIPS is "all", or a step.
func flipStep(t testing.TB, sample int) int {
	switch every := os.Getenv("POSTHASTE_FLIPS"); every {
	case "":
		return sample
	case "all":
		return 1
	default:
		step, err := strconv.Atoi(every)
		if err != nil || step < 1 {
			t.Fatalf("POSTHASTE_FLIPS=%q: want all, or a number", every)
		}
		return step
	}
}

func kindOfImage(killed bool) string {
	if killed {
		return "killed"
	}
	return "stopped"
}

// lists returns the image with all files empty that the checks of its lists do not
// read.
func (img image) lists() image {
	other := make(image, len(img))
	for name, data := range img {
		base := path.Base(name)
		if !strings.HasPrefix(base, "MANIFEST") && !strings.HasPrefix(base, "OPTIONS") && path.Base(path.Dir(name)) != manifestDir && !strings.HasSuffix(name, "/") {
			data = []byte{}
		}
		other[name] = data
	}
	return other
}

// glance reports whether an image can be opened and lists all messages, none of
// them as damaged. It reads no contents, and ends without a clean stop.
func glance(t testing.TB, img image, waiting map[mail.QueueID]int) bool {
	s, err := Open(small(img.fs(t)))
	if err != nil {
		return false
	}
	<-s.work.swept
	sound := 0
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		list, _, more, err := s.List(ctxTest, area, mail.Cursor{}, 10_000)
		for _, m := range list {
			if _, ours := waiting[m.Envelope.ID]; ours && m.Err == nil && area != mail.AreaCorrupt {
				sound++
			}
		}
		if err != nil || more {
			sound = -1
			break
		}
	}
	for id, i := range waiting {
		if flipSize(i) != 9000 {
			continue
		}
		if _, file := s.bodies.path(id); sound > 0 {
			if _, err := s.disk.Stat(file); err != nil {
				sound = -1
			}
		}
	}
	s.closed = true
	s.stopBackground()
	if err := s.release(); err != nil {
		t.Errorf("close: %v", err)
	}
	return sound == len(waiting)
}

// checksRestore reports whether the checks before the store is opened restore an image
// with a flipped bit in one of its lists to the original, for which the rest is known
// to work. It takes a hundredth of the time of opening the spool and reading all mail.
func checksRestore(t testing.TB, lists image, name string, bit int) bool {
	fs := lists.flipped(name, bit).fs(t)
	s := &Spool{cfg: small(fs).WithDefaults(), disk: fs, fs: fs, mending: fs}
	if err := errors.Join(s.checkManifest(), s.checkOptions()); err != nil {
		return false
	}
	after := imageOf(t, fs, "/spool/db")
	if strings.HasPrefix(path.Base(name), "OPTIONS") {
		_, there := after[name] // not needed: an empty store starts without it
		return !there
	}
	for file, data := range lists {
		if path.Dir(file) == "/spool/db" && !strings.HasSuffix(file, "/") && !bytes.Equal(after[file], data) {
			return false
		}
	}
	return true
}

// Seen failing: without the copy of the MANIFEST, Pebble opened an older
// version, deleted the newer tables, and the sweep deleted their contents.
func TestFlippedManifest(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	for _, killed := range []bool{false, true} {
		t.Run(kindOfImage(killed), func(t *testing.T) {
			img, waiting := spooled(t, killed)
			if f := fateOf(t, img, waiting); f.read != len(waiting) {
				t.Fatalf("without damage: of %d messages %v", len(waiting), f)
			}
			lists := img.lists()
			var restored, tried int
			step := flipStep(t, 1193)
			for _, name := range img.names(func(n string) bool { return strings.HasPrefix(n, "MANIFEST") || strings.HasPrefix(n, "OPTIONS") }) {
				bits := len(img[name]) * 8
				for bit := 0; bit < bits; bit += step {
					tried++
					if checksRestore(t, lists, name, bit) {
						restored++
						continue
					}
					flipped := img.flipped(name, bit)
					if glance(t, flipped, waiting) {
						continue
					}
					f := fateOf(t, flipped, waiting)
					if f.refused != nil {
						t.Errorf("%s, bit %d: not opened: %v", name, bit, f.refused)
					} else if f.read != len(waiting) {
						t.Errorf("%s, bit %d of %d: of %d messages %v", name, bit, bits, len(waiting), f)
					}
				}
			}
			t.Logf("%d flips, of which %d were noticed before the store was opened", tried, restored)
		})
	}
}

// Each bit of the names of marker files, whose information is in their names.
func TestFlippedMarkers(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	for _, killed := range []bool{false, true} {
		t.Run(kindOfImage(killed), func(t *testing.T) {
			img, waiting := spooled(t, killed)
			for _, name := range img.names(func(n string) bool { return strings.HasPrefix(n, "marker") }) {
				base := filepath.Base(name)
				for bit := 0; bit < len(base)*8; bit += flipStep(t, 17) {
					b := []byte(base)
					b[bit/8] ^= 1 << (bit % 8)
					if bytes.ContainsAny(b, "/\x00") {
						continue
					}
					f := fateOf(t, img.with(name, nil).with(path.Join(path.Dir(name), string(b)), []byte{}), waiting)
					if f.refused == nil && f.read != len(waiting) {
						t.Errorf("%s named %q: of %d messages %v", base, b, len(waiting), f)
					}
				}
			}
		})
	}
}

// Random bits of tables, blobs, logs and contents.
func TestFlippedData(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	n := 2 * golden.Runs(2)
	for _, killed := range []bool{false, true} {
		t.Run(kindOfImage(killed), func(t *testing.T) {
			img, waiting := spooled(t, killed)
			rng := rand.New(rand.NewPCG(7, 7))
			names := img.names(func(n string) bool { return true })
			names = slices.DeleteFunc(names, func(n string) bool {
				return len(img[n]) == 0 || !isMail(n) || strings.Contains(n, "MANIFEST")
			})
			total := 0
			for _, name := range names {
				total += len(img[name])
			}
			var told, lost, unreachable int
			for range n {
				at := rng.IntN(total)
				var name string
				for _, name = range names {
					if at < len(img[name]) {
						break
					}
					at -= len(img[name])
				}
				f := fateOf(t, img.flipped(name, at*8+rng.IntN(8)), waiting)
				told += f.told
				switch {
				case f.refused != nil:
					t.Errorf("%s, byte %d of %d: not opened: %v", name, at, len(img[name]), f.refused)
				case len(f.unnamed) == 0 && path.Ext(name) == ".log":
					lost += len(f.vanished)
				case len(f.unnamed) == 0:
					unreachable += len(f.vanished)
				default:
					t.Errorf("%s, byte %d of %d: of %d messages %v", name, at, len(img[name]), len(waiting), f)
				}
			}
			t.Logf("%d flips: %d messages listed as damaged, %d lost with a damaged log and named, %d in unreadable parts of tables and named", n, told, lost, unreachable)
		})
	}
}

// Mistakes that are not made by flipped bits, but by people and restores.
func TestWrongStoreFiles(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	img, waiting := spooled(t, false)
	manifests, copies := img.names(func(n string) bool { return strings.HasPrefix(n, "MANIFEST") }), img.copies()
	if len(manifests) != 2 || len(copies) != 2 {
		t.Fatalf("files %v and copies %v, want those of two", manifests, copies)
	}
	older, manifest, second := path.Base(manifests[0]), manifests[1], copies[1]
	marker := img.names(func(n string) bool { return strings.HasPrefix(n, "marker.manifest") })[0]
	tables := img.names(func(n string) bool { return path.Ext(n) == ".sst" })
	alone := img.with(copies[0], nil).with(copies[1], nil)
	for _, test := range []struct {
		name   string
		img    image
		opened bool
	}{
		{"MANIFEST cut", img.with(manifest, img[manifest][:len(img[manifest])/2]), true},
		{"MANIFEST empty", img.with(manifest, []byte{}), true},
		{"MANIFEST missing", img.with(manifest, nil), true},
		{"MANIFEST missing, no copies", alone.with(manifest, nil), false},
		{"MANIFEST cut, no copies", alone.with(manifest, img[manifest][:len(img[manifest])-3]), false},
		{"MANIFEST and its copy cut", img.with(manifest, img[manifest][:90]).with(second, img[second][:90]), false},
		{"MANIFEST of another time", img.with(manifest, img[manifests[0]]), true},
		{"no copies, as an earlier version leaves it", alone, true},
		{"copy missing", img.with(second, nil), true},
		{"copy cut", img.with(second, img[second][:90]), true},
		{"copy empty", img.with(second, []byte{}), true},
		{"marker missing", img.with(marker, nil), false},
		{"marker and copies missing", alone.with(marker, nil), false},
		{"older marker restored", img.with(marker, nil).with(strings.Replace(marker, path.Base(manifest), older, 1), []byte{}), false},
		{"older marker and MANIFEST restored, no copies", alone.with(marker, nil).with(strings.Replace(marker, path.Base(manifest), older, 1), []byte{}), false},
		{"table missing", img.with(tables[0], nil), false},
		{"table cut", img.with(tables[0], img[tables[0]][:len(img[tables[0]])-1]), false},
		{"tables swapped", img.with(tables[0], img[tables[1]]).with(tables[1], img[tables[0]]), false},
	} {
		f := fateOf(t, test.img, waiting)
		switch {
		case test.opened != (f.refused == nil):
			t.Errorf("%s: opened with %v", test.name, f.refused)
		case test.opened && f.read != len(waiting):
			t.Errorf("%s: of %d messages %v", test.name, len(waiting), f)
		case f.refused != nil && !(strings.Contains(f.refused.Error(), "/spool") && strings.Contains(f.refused.Error(), "restore")):
			t.Errorf("%s: the error does not say where the damage is and what to do: %v", test.name, f.refused)
		}
	}
}

// Every bit of the copy of the MANIFEST: the MANIFEST itself is intact.
func TestFlippedManifestCopy(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	img, waiting := spooled(t, true)
	for _, name := range img.copies() {
		for bit := 0; bit < len(img[name])*8; bit += flipStep(t, 397) {
			if f := fateOf(t, img.flipped(name, bit), waiting); f.read != len(waiting) || f.refused != nil {
				t.Errorf("%s, bit %d: refused %v, of %d messages %v", name, bit, f.refused, len(waiting), f)
			}
		}
	}
}

// A log that is missing at a start is noticed, the range of its messages is named,
// content files that only it referred to are kept, and everything else is read.
//
// Seen failing: without missLogs, the messages were lost silently, and the sweep
// deleted their contents; without a range in the alarm, 27 of 32 were not named.
func TestMissingLog(t *testing.T) {
	t.Parallel()
	img, waiting := spooled(t, true)
	for _, name := range img.names(func(n string) bool { return path.Ext(n) == ".log" }) {
		hurt := img.with(name, nil)
		fs := hurt.fs(t)
		var raised alarms
		cfg := small(fs)
		cfg.OnAlarm = raised.add
		s := mustOpen(t, cfg)
		<-s.work.swept
		if !raised.contain("log of the store is missing", path.Base(name)) {
			t.Errorf("without %s: alarms %v", name, raised.list)
		}
		if files := s.damagedFiles(); len(files) != 1 || path.Ext(files[0].Path) != ".missing" {
			t.Errorf("without %s: kept are %v", name, files)
		}
		lost := false
		for id, i := range waiting {
			if _, err := contentOf(s, id); !errors.Is(err, ErrGone) {
				continue
			}
			if !raised.name(id) {
				t.Errorf("without %s: no alarm names %s", name, id)
			}
			if flipSize(i) == 9000 {
				lost = true
				if dirs, _ := fs.List("/spool/damaged/content"); len(dirs) != 1 {
					t.Errorf("without %s: contents are in %v", name, dirs)
				} else if _, err := fs.Stat(path.Join("/spool/damaged/content", dirs[0], id.String())); err != nil {
					t.Errorf("without %s: content of %s: %v", name, id, err)
				}
			}
		}
		mustClose(t, s)
		raised.list = nil
		mustClose(t, mustOpen(t, cfg))
		if raised.count(AlarmCorrupt) != 0 {
			t.Errorf("without %s: alarms at the second start: %v", name, raised.list)
		}
		// A month later they are deleted.
		now := cfg.Now
		for _, age := range []time.Duration{orphanLife - time.Hour, orphanLife} {
			cfg.Now = func() mail.Instant { return now() + mail.Instant(age) }
			s = mustOpen(t, cfg)
			if err := s.round(ctxTest, true); err != nil {
				t.Error(err)
			}
			if dirs, _ := fs.List("/spool/damaged/content"); len(dirs) > 0 != (age < orphanLife) && lost {
				t.Errorf("without %s: after %v contents are in %v", name, age, dirs)
			}
			mustClose(t, s)
		}
	}
}
