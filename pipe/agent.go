package pipe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/verp"
)

// An Agent delivers to programs. It is safe for concurrent use.
type Agent struct {
	cfg      Config
	bodies   Bodies
	programs map[string]*program // by transport
}

// A program is the program of a transport.
type program struct {
	TransportConfig
	arguments   []Argument // behind the path
	identity    identity
	environment []string
}

// filePrefix begins the names of files while they have one.
const filePrefix = "message-"

// New returns an Agent. Its error says what cannot be on this machine, such as a user that
// does not exist. A program that is missing is logged.
func New(cfg Config, bodies Bodies) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	cfg = cfg.WithDefaults()
	a := &Agent{cfg: cfg, bodies: bodies, programs: make(map[string]*program, len(cfg.Transports))}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.Transports)) {
		p, err := newProgram(cfg.Transports[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("transport %s: %w", name, err))
		}
		a.programs[name] = p
	}
	if len(cfg.Transports) > 0 {
		errs = append(errs, makeDir(cfg.Dir))
		keepFiles()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(a.programs)) {
		a.programs[name].check(name, cfg.Log)
	}
	return a, nil
}

func newProgram(t TransportConfig) (*program, error) {
	p := &program{TransportConfig: t}
	for _, text := range t.Command[1:] {
		argument, err := ParseArgument(text)
		if err != nil {
			return nil, err // Validate has checked it
		}
		p.arguments = append(p.arguments, argument)
	}
	var err error
	if p.identity, err = identify(t.User); err != nil {
		return nil, err
	}
	p.environment = environment(t.Environment)
	return p, nil
}

// check warns of a program that cannot be started now. It may be on a file system that is
// not mounted yet, and other mail does not need it.
func (p *program) check(transport string, log *slog.Logger) {
	path := p.Command[0]
	info, err := os.Stat(path)
	switch {
	case err != nil:
		log.Warn("the program of a transport is missing; its mail waits", "transport", transport, "command", path, "error", err)
	case info.IsDir() || info.Mode().Perm()&0o111 == 0:
		log.Warn("the program of a transport is not executable; its mail waits", "transport", transport, "command", path)
	}
	if err := p.directoryError(); err != nil {
		log.Warn("the working directory of a transport's program cannot be used; its mail waits", "transport", transport, "directory", p.Directory, "error", err)
	}
}

// directoryError returns what is wrong with the working directory, as far as this process
// can see.
func (p *program) directoryError() error {
	info, err := os.Stat(p.Directory)
	if err == nil && !info.IsDir() {
		return syscall.ENOTDIR
	}
	return err
}

// environment returns the variables of a program. A variable that is set twice has its
// last value (os/exec).
func environment(set []string) []string {
	all := []string{"PATH=/usr/bin:/bin"}
	for _, name := range []string{"TZ", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+value)
		}
	}
	return append(all, set...)
}

// leftAfter is the age at which a file is certainly not in use any more.
const leftAfter = time.Hour

// makeDir makes the directory of files, and removes those from it that a process that was
// killed has left with a name.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(dir, filePrefix+"*"))
	if err != nil {
		return err
	}
	for _, name := range left {
		if info, err := os.Lstat(name); err != nil || time.Since(info.ModTime()) < leftAfter {
			continue // another agent, which a reload replaces, is about to remove its name
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// Deliver runs the transport's program. All recipients have the same outcome, unless they
// are more than the system takes on one command line: then it runs several times, one after
// the other, each within the time limit.
func (a *Agent) Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult {
	p := a.programs[d.Transport]
	if p == nil {
		return unavailable(d, "mail transport "+d.Transport+" is not configured")
	}
	if d.Callout {
		return result(d, of(mail.Status{Class: 2, Subject: 1, Detail: 5}, "programs are not asked", ""))
	}
	d.Envelope.Sender = verp.SenderOf(a.cfg.VERPSecrets, &d)
	if _, ok := p.argumentsOf(&d); !ok {
		return result(d, of(mail.Status{Class: 5, Subject: 1, Detail: 3}, "an address begins with a dash, and would be an option of the program", ""))
	}
	began := time.Now()
	message, err := a.prepare(ctx, &p.TransportConfig, &d)
	if err != nil {
		return a.unprepared(d, err)
	}
	defer message.Close() // it was only read
	r := a.runAll(ctx, p, message, d)
	r.Send = time.Since(began)
	p.report(&d, &r)
	return r
}

// argumentsOf returns the arguments of a delivery. ok is false if an address would be taken
// for an option.
func (p *program) argumentsOf(d *mail.Delivery) (list []string, ok bool) {
	v := values{&p.TransportConfig, d}
	return v.arguments(p.arguments)
}

// runAll starts the program, and for halves of the recipients if there are too many of them.
func (a *Agent) runAll(ctx context.Context, p *program, message *os.File, d mail.Delivery) mail.DeliveryResult {
	arguments, _ := p.argumentsOf(&d) // Deliver has checked them
	r, err := a.run(ctx, p, arguments, message, d)
	if !errors.Is(err, syscall.E2BIG) || len(d.Recipients) < 2 {
		return r
	}
	half, other := d, d
	half.Recipients, other.Recipients = d.Recipients[:len(d.Recipients)/2], d.Recipients[len(d.Recipients)/2:]
	r = a.runAll(ctx, p, message, half)
	if _, err := message.Seek(0, io.SeekStart); err != nil { // the program has read it
		rest := unavailable(other, "the message cannot be read again: "+cause(err))
		r.Outcomes = append(r.Outcomes, rest.Outcomes...)
		return r
	}
	rest := a.runAll(ctx, p, message, other)
	// What is said about all mail of the transport holds if no program could be started.
	if r.Crashed = r.Crashed && rest.Crashed; !r.Crashed {
		r.Unavailable = mail.Reply{}
	}
	r.Outcomes = append(r.Outcomes, rest.Outcomes...)
	return r
}

// report has senders told of the delivery who asked for that: no later hop can.
func (p *program) report(d *mail.Delivery, r *mail.DeliveryResult) {
	kind := mail.ReportRelayed
	if p.Flags&FlagFinal != 0 {
		kind = mail.ReportDelivered
	}
	for i := range r.Outcomes {
		o, rcpt := &r.Outcomes[i], &d.Recipients[i]
		if o.Result == mail.Delivered && (rcpt.Notify.Success() && d.Envelope.Sender != "" ||
			kind == mail.ReportRelayed && d.Envelope.ReportsRelay(rcpt, false, o.At)) { // RFC 2852 4.1.5
			o.Report = kind
		}
	}
}

// unprepared returns the result of a delivery for which no program was started.
func (a *Agent) unprepared(d mail.Delivery, err error) mail.DeliveryResult {
	var loop loopError
	if errors.As(err, &loop) {
		return result(d, of(mail.Status{Class: 5, Subject: 4, Detail: 6}, loop.Error(), ""))
	}
	a.cfg.Log.Debug("message not prepared for program", "id", d.Envelope.ID, "error", err)
	var read readError
	if errors.As(err, &read) {
		r := result(d, of(mail.Status{Class: 4, Subject: 3}, "the message cannot be read from the queue", ""))
		r.Crashed = true
		return r
	}
	return unavailable(d, "the message cannot be stored for the program: "+cause(err))
}

// markName is the variable by which what a program has started is found when the program's time is
// over. Its value is different at each start.
const markName = "POSTHASTE_DELIVERY"

// closeTime is the time for which other processes may keep the output of a program open that has
// ended.
const closeTime = time.Second

// run starts the program and waits for its end. The error is that of the start.
func (a *Agent) run(ctx context.Context, p *program, arguments []string, message *os.File, d mail.Delivery) (mail.DeliveryResult, error) {
	limited, cancel := context.WithTimeout(ctx, p.TimeLimit)
	defer cancel()
	var said output
	c := exec.CommandContext(limited, p.Command[0], arguments...)
	c.Stdin, c.Stdout, c.Stderr = message, &said, &said
	mark := markName + "=" + rand.Text()
	c.Dir, c.Env = p.Directory, append(slices.Clip(p.environment), mark)
	isolate(c, p.identity)
	c.Cancel = func() error { return kill(c.Process.Pid, mark) }
	c.WaitDelay = closeTime
	if err := c.Start(); err != nil {
		if ctx.Err() != nil {
			return interrupted(d, false), err
		}
		where := ""
		if p.directoryError() != nil { // the system has the same error for both
			where = " in " + p.Directory
		}
		return unavailable(d, "the program cannot be started"+where+": "+cause(err)), err
	}
	err := c.Wait()
	a.cfg.Log.Debug("program ended", "id", d.Envelope.ID, "pid", c.Process.Pid, "command", p.Command[0], "state", c.ProcessState.String(), "error", err)
	return end(ctx, limited, p, c.ProcessState, &said, d), nil
}

// end returns the result of a program that has ended; limited is the context that ends with
// its time.
func end(ctx, limited context.Context, p *program, state *os.ProcessState, said *output, d mail.Delivery) mail.DeliveryResult {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return unavailable(d, "the end of the program is not known")
	case status.Exited() && (status.ExitStatus() == 0 || limited.Err() == nil):
		return result(d, judge(status, said))
	case ctx.Err() != nil:
		return interrupted(d, true)
	case limited.Err() != nil:
		return result(d, outOfTime(p.TimeLimit.String(), said.lastLine()))
	}
	return result(d, judge(status, said))
}

// result gives all recipients the same outcome.
func result(d mail.Delivery, v verdict) mail.DeliveryResult {
	at := mail.Instant(time.Now().UnixNano())
	outcomes := make([]mail.Outcome, len(d.Recipients))
	for i := range outcomes {
		outcomes[i] = mail.Outcome{Index: d.Recipients[i].Index, Result: v.result, Reply: v.reply, At: at, Unknown: v.unknown}
	}
	return mail.DeliveryResult{Outcomes: outcomes}
}

// unavailable is the result of a delivery that failed for a reason that concerns all mail
// of the transport.
func unavailable(d mail.Delivery, text string) mail.DeliveryResult {
	v := of(mail.Status{Class: 4, Subject: 3, Detail: 5}, text, "")
	r := result(d, v)
	r.Crashed, r.Unavailable = true, v.reply
	return r
}

// interrupted is the result of a delivery that this process has given up.
func interrupted(d mail.Delivery, started bool) mail.DeliveryResult {
	v := of(mail.Status{Class: 4, Subject: 3, Detail: 2}, "delivery interrupted on our side", "")
	v.unknown = started
	r := result(d, v)
	r.Crashed = !started
	return r
}

// cause returns the system's error, without the names of our files.
func cause(err error) string {
	var sys syscall.Errno
	if errors.As(err, &sys) {
		return sys.Error()
	}
	return err.Error()
}
