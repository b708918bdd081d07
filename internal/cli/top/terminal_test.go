package top

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/posthaste-mta/posthaste/admin/live"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
)

// programVariable makes the test's own program the one that is tested: "command" with its
// arguments, or "panic" for one that fails with a bug when P is pressed.
const programVariable = "POSTHASTE_TEST_TOP"

func TestMain(m *testing.M) {
	switch os.Getenv(programVariable) {
	case "":
		os.Exit(m.Run())
	case "panic":
		code := command.Complain(os.Stderr, "posthaste", run(context.Background(), panicking{}, os.Stdout))
		os.Exit(int(code))
	default:
		out := &command.Output{Writer: os.Stdout}
		err := command.Execute(context.Background(), NewCommand(), os.Args[1:], command.Streams{In: os.Stdin, Out: out, Err: os.Stderr})
		os.Exit(int(command.Complain(os.Stderr, "posthaste", err)))
	}
}

// panicking is a model with a bug, in a command of its own goroutine, in Update or in View.
type panicking struct{ view bool }

func (p panicking) Init() tea.Cmd { return nil }
func (p panicking) View() tea.View {
	if p.view {
		panic("bug in View")
	}
	v := tea.NewView("ready to fail")
	v.AltScreen = true
	return v
}
func (p panicking) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case panicMsg:
		panic(msg.text)
	case tea.KeyPressMsg:
		if msg.String() == "C" {
			return p, guarded(func() tea.Msg { panic("bug in a command") })
		}
		if msg.String() == "V" {
			return panicking{view: true}, nil
		}
		panic("bug in Update")
	}
	return p, nil
}

// A terminal runs the program on a pseudoterminal and has its screen.
type terminal struct {
	t      *testing.T
	pty    *os.File
	slave  *os.File // kept open, to look at the terminal after the program's end
	before *term.State
	cmd    *exec.Cmd
	exited chan struct{} // closed when the program has ended

	mu       sync.Mutex
	drawn    *sync.Cond // the screen has changed
	screen   *vt.Emulator
	hidden   bool // the cursor
	raw      strings.Builder
	quit     error
	finished chan struct{} // closed when all output was read
	answered chan struct{} // closed when the terminal gives no answers any more
}

// openTerminal runs the program on a terminal of a size, with variables besides those of the
// test, and a background color, nil for one that does not answer.
func openTerminal(t *testing.T, columns, rows int, background color.Color, environment []string, args ...string) *terminal {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, pty: master, slave: slave, before: before, screen: vt.NewEmulator(columns, rows), exited: make(chan struct{}), finished: make(chan struct{}), answered: make(chan struct{})}
	x.drawn = sync.NewCond(&x.mu)
	x.screen.SetCallbacks(vt.Callbacks{CursorVisibility: func(visible bool) { x.hidden = !visible }})
	if background != nil {
		x.screen.SetBackgroundColor(background)
	}
	x.cmd = exec.Command(os.Args[0], args...)
	x.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NO_COLOR=") || strings.HasPrefix(v, "CLICOLOR") || strings.HasPrefix(v, "COLORTERM=")
	}), "TERM=xterm-256color", "TZ=UTC", programVariable+"=command")
	x.cmd.Env = append(x.cmd.Env, environment...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.answered)
		io.Copy(master, x.screen) // the terminal's answers to queries
	}()
	go x.read()
	go func() {
		x.quit = x.cmd.Wait()
		close(x.exited)
	}()
	t.Cleanup(x.close)
	return x
}

// read has the screen show what the program writes.
func (x *terminal) read() {
	defer close(x.finished)
	buffer := make([]byte, 64<<10)
	for {
		n, err := x.pty.Read(buffer)
		x.mu.Lock()
		x.raw.Write(buffer[:n])
		x.screen.Write(buffer[:n])
		x.drawn.Broadcast()
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (x *terminal) close() {
	select {
	case <-x.exited:
	default:
		x.cmd.Process.Kill()
		<-x.exited
	}
	x.slave.Close()
	<-x.finished
	x.screen.InputPipe().(io.Closer).Close() // screen.Close would race with the answers
	<-x.answered
	x.pty.Close()
	x.screen.Close()
}

// text returns the screen.
func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

// patience is how long a test waits for what must come at some time.
const patience = time.Minute

// until waits until the screen meets a condition, which may use all of x.
func (x *terminal) until(what string, met func(screen string) bool) string {
	x.t.Helper()
	late := false
	alarm := time.AfterFunc(patience, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		late = true
		x.drawn.Broadcast()
	})
	defer alarm.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		screen := x.screen.String()
		if met(screen) {
			return screen
		}
		if late {
			x.t.Fatalf("%s: the screen is\n%s", what, screen)
		}
		x.drawn.Wait()
	}
}

// has waits for texts on the screen, however they are broken into lines.
func (x *terminal) has(texts ...string) string {
	x.t.Helper()
	return x.until(fmt.Sprintf("%q", texts), func(screen string) bool {
		screen += strings.Join(strings.Fields(screen), " ")
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(screen, text) })
	})
}

// press presses keys.
func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := x.pty.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// ends waits for the end of the program and wants an exit code and the terminal as it was.
func (x *terminal) ends(code int) {
	x.t.Helper()
	select {
	case <-x.exited:
	case <-time.After(patience):
		x.t.Fatalf("it does not end; the screen is\n%s", x.text())
	}
	got := 0
	var failed *exec.ExitError
	if errors.As(x.quit, &failed) {
		got = failed.ExitCode()
	}
	if got != code {
		x.t.Errorf("exit code %d, want %d; the screen is\n%s", got, code, x.text())
	}
	after, err := term.GetState(int(x.slave.Fd()))
	if err != nil {
		x.t.Fatal(err)
	}
	if *after != *x.before {
		x.t.Errorf("the terminal's modes are %+v, and were %+v", after, x.before)
	}
	x.until("the first screen with its cursor again", func(string) bool {
		return !x.screen.IsAltScreen() && !x.hidden
	})
}

// lines returns the lines of a screen.
func lines(screen string) []string { return strings.Split(strings.TrimRight(screen, "\n"), "\n") }

// On the smallest usual terminal all that matters is there; a large one shows more columns; a
// change of the size is followed at once.
func TestSizes(t *testing.T) {
	d := startDaemon(t)
	x := openTerminal(t, 80, 24, nil, nil, "--socket", d.socket)
	screen := x.has("posthaste top", d.socket, "sent 120", "in 12.3", "deferred 3.2", "oldest 3h", "3,456 deferred", "22 connections +3", "[1 Sites 3]", "smtp:example.net", "q quit", "STATE", "WINDOW")
	if n := len(lines(screen)); n != 24 {
		t.Errorf("%d lines", n)
	}
	if strings.Contains(screen, "LAST MOVE") {
		t.Errorf("80 columns have room for the last move:\n%s", screen)
	}
	if !regexp.MustCompile(`(?m)^smtp:example\.net +full +20 +20 +400 +3h`).MatchString(screen) {
		t.Errorf("no line of smtp:example.net:\n%s", screen)
	}
	x.until("preemptions", func(screen string) bool {
		return regexp.MustCompile(`preempted [1-9][.0-9]* \([0-9]+\)`).MatchString(screen)
	})
	x.resize(200, 60)
	screen = x.has("LAST MOVE", "ago shrank 21→20: 421 too many", "5 MINUTES", "▂▄███", "MESSAGES", "until ")
	if n := len(lines(screen)); n != 60 {
		t.Errorf("%d lines", n)
	}
	x.resize(30, 8)
	x.has("too small")
	x.resize(20, 5)
	x.has("Terminal too small:", "20×5, needs 40×12. q", "quits.", "deferred")
	x.resize(80, 24)
	x.has("[1 Sites 3]", "q quit")
	x.press("q")
	x.ends(0)
}

// resize changes the size of the terminal.
func (x *terminal) resize(columns, rows int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(columns, rows)
	x.mu.Unlock()
	if err := pty.Setsize(x.pty, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}); err != nil {
		x.t.Fatal(err)
	}
}

// An operator looks at flows and messages, opens pages with explanations, sorts and filters.
func TestViews(t *testing.T) {
	d := startDaemon(t)
	x := openTerminal(t, 110, 32, nil, nil, "--socket", d.socket)
	x.has("smtp:dead.example")
	x.press("\r") // the first line, which has most waiting
	x.has("Site smtp:example.net", "Why", "Window      20", "(window)", "Esc back")
	x.press("\x1b")
	x.has("[1 Sites 3]")

	x.press("/dead\r")
	screen := x.has("1 of 3", "filter: dead")
	if strings.Contains(screen, "smtp:example.net") {
		t.Errorf("the filter has no effect:\n%s", screen)
	}
	x.press("\x1b")
	x.has("smtp:example.net")

	x.press("2")
	x.has("[2 Flows 2]", "news@shop.example", "otp@app.example", "99.5")
	x.press("\r")
	x.has("Flow news@shop.example of tenant shop", "2 flows share it")
	x.press("q3")
	x.has("[3 Transports 2]", "retry")
	x.press("4")
	x.has("[4 Messages]", "user0@example.net")
	x.press("/user7\r")
	screen = x.has("user7@example.net", "filter: user7")
	if strings.Contains(screen, "user0@example.net") {
		t.Errorf("the filter has no effect:\n%s", screen)
	}
	x.press("\r")
	x.has("Message 0", "user7@example.net", "451 try later", "it was tried, put off")
	x.press("q/ nothing:x\r")
	x.has("is no condition")
	x.press("\x1b")
	x.has("Nothing was done.")
	x.press("?")
	x.has("Keys", "suspend a site", "lines 1–")
	x.press("\x03")
	x.ends(0)
}

// Orders are given after questions that say what will happen.
func TestOrders(t *testing.T) {
	d := startDaemon(t)
	x := openTerminal(t, 100, 30, nil, nil, "--socket", d.socket)
	x.has("smtp:example.net")
	x.press("S")
	x.has("Suspend site example.net for how long?", "10m")
	x.press("x\r")
	x.has(`"10mx" is not a time`)
	x.press("\x7f\r")
	x.has("Why? Others see it")
	x.press("\r")
	x.has("a reason is needed")
	x.press("they asked\r")
	x.has("Suspend site example.net for 10m (they asked)? No more deliveries start")
	x.press("y")
	x.has("Suspended site example.net.", "*smtp:example.net", "suspended", "5 Suspensions 1")
	x.press("5")
	x.has("[5 Suspensions 1]", "they asked")
	x.press("1U")
	x.has("Resume site example.net is suspended by")
	x.press("y")
	x.has("Resumed site example.net.", "5 Suspensions 0")

	x.press("2S")
	x.has("1 tenant shop", "2 class bulk")
	x.press("\x1b")
	x.has("Nothing was done.")

	x.press("R")
	x.has("Try 30 messages of flow news@shop.example", "tried before it is due")
	if ids, _ := d.queue.Retried(); len(ids) > 0 {
		t.Errorf("%d messages were tried before a yes", len(ids))
	}
	x.press("n")
	x.has("Nothing was done.")
	x.press("R")
	x.has("Try 30 messages")
	x.press("y")
	x.has("Trying 30 messages.")
	if ids, _ := d.queue.Retried(); len(ids) != 30 {
		t.Errorf("%d messages were tried", len(ids))
	}
	x.press("q")
	x.ends(0)
}

// If the daemon goes away, the screen says so and keeps what it has, and goes on when it is
// back.
func TestDaemonAway(t *testing.T) {
	d := startDaemon(t)
	x := openTerminal(t, 100, 30, nil, nil, "--socket", d.socket)
	x.has("smtp:example.net")
	d.stop()
	x.has("NO ANSWER for", d.socket, "Trying again", "those of before", "smtp:example.net")
	d.change(func(s *live.Sample) { s.Sites = s.Sites[1:]; s.SitesKnown = 2 })
	d.listen(t)
	screen := x.has("The daemon answers again.", "[1 Sites 2]", "smtp:dead.example")
	if strings.Contains(screen, "NO ANSWER") {
		t.Errorf("it still says that nothing answers:\n%s", screen)
	}
	d.mu.Lock()
	d.breaks = true
	d.mu.Unlock()
	x.has("NO ANSWER", "invalid character")
	x.press("q")
	x.ends(0)
}

// A signal ends the program with the terminal as it was, and so does a bug.
func TestEnds(t *testing.T) {
	d := startDaemon(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		x := openTerminal(t, 80, 24, nil, nil, "--socket", d.socket)
		x.has("smtp:example.net")
		x.cmd.Process.Signal(s)
		x.ends(0)
	}
	for key, text := range map[string]string{"C": "bug in a command", "u": "bug in Update", "V": "bug in View"} {
		x := openTerminal(t, 120, 60, nil, []string{programVariable + "=panic"})
		x.has("ready to fail")
		x.press(key)
		x.ends(70)
		x.has(text, "Please report it.")
	}
}

// Without a daemon the command ends as others do, and draws nothing.
func TestNoDaemon(t *testing.T) {
	x := openTerminal(t, 80, 24, nil, nil, "--socket", "/nonexistent/s")
	x.ends(69)
	if screen := x.has("connect to /nonexistent/s"); strings.Contains(screen, "Sites") {
		t.Errorf("the screen is\n%s", screen)
	}
}

// The colors are those for the terminal's background, and NO_COLOR is respected
// (no-color.org): what the colors say is in words, too.
func TestColors(t *testing.T) {
	d := startDaemon(t)
	colored := regexp.MustCompile(`\x1b\[[0-9;:]*[34]8[;:][0-9;:]*m|\x1b\[(?:[0-9]+;)*(?:3|4|9|10)[0-7](?:;[0-9]+)*m`)
	drawn := map[string]string{}
	for name, c := range map[string]struct {
		background  color.Color
		environment []string
	}{
		"dark": {color.Black, nil}, "light": {color.White, nil}, "none": {nil, []string{"NO_COLOR=1"}}, "unknown": {nil, nil},
	} {
		x := openTerminal(t, 80, 24, c.background, c.environment, "--socket", d.socket)
		x.has("smtp:example.net", "dead")
		x.press("jk") // drawn again after the terminal's answer
		x.until("the colors", func(string) bool {
			drawn[name] = x.raw.String()
			return name != "light" || strings.Contains(drawn[name], "38;5;160;")
		})
		x.press("q")
		x.ends(0)
		if got := colored.FindString(drawn[name]); (got == "") != (name == "none") {
			t.Errorf("%s: colors %q", name, got)
		}
	}
	if !strings.Contains(drawn["dark"], "38;5;203;") || strings.Contains(drawn["dark"], "38;5;160;") {
		t.Errorf("the colors on a dark terminal are wrong: %q", drawn["dark"])
	}
}

// Output that is no terminal has the figures once, and nothing that moves a cursor.
func TestOnce(t *testing.T) {
	d := startDaemon(t)
	for _, args := range [][]string{{"--socket", d.socket}, {"--once", "--socket", d.socket}} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), programVariable+"=command", "TZ=UTC")
		octets, err := cmd.Output()
		text := string(octets)
		if err != nil || strings.Contains(text, "\x1b") {
			t.Errorf("%v: %v\n%q", args, err, text)
		}
		for _, want := range []string{"posthaste top  " + d.socket + "  ", "sent 120", "SITES\n", "smtp:{mx1.quick.example;mx2.quick.example}  opening", "FLOWS\n", "news@shop.example", "TRANSPORTS\n", "ago shrank 21→20: 421 too many connections"} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: no %q in\n%s", args, want, text)
			}
		}
	}
}
