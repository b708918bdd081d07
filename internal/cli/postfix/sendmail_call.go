package postfix

import (
	"errors"
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// where takes the long options that say where the daemon is off the front.
func (c *sendmailCall) where(args []string) (rest []string, err error) {
	to := map[string]*string{"--socket": &c.place.Socket, "--queue-directory": &c.place.Directory, "--config": &c.place.Config}
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		field, ok := to[name]
		if !ok {
			break
		}
		if args = args[1:]; !joined {
			if len(args) == 0 {
				return nil, fmt.Errorf("option %s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		switch {
		case value == "":
			return nil, fmt.Errorf("option %s is given with an empty value", name)
		case *field != "":
			return nil, fmt.Errorf("option %s is given twice, and takes one value", name)
		}
		*field = value
	}
	return args, nil
}

func (c *sendmailCall) parse(args []string) error {
	found, err := getopt(args, optionSet{flags: "GgimntvU", valued: "fFrNRVBCOLXhp", attached: "bqoeAd"})
	if err != nil {
		return err
	}
	c.raw = found.rest
	for _, o := range found.options {
		if err := c.option(o); err != nil {
			return err
		}
	}
	return nil
}

// checkOrder refuses an option after a recipient: it is never meant as an address, and
// if a sender in it were ignored, no report would reach that sender.
func (c *sendmailCall) checkOrder() error {
	for _, arg := range c.raw[min(len(c.raw), 1):] {
		if len(arg) > 1 && arg[0] == '-' {
			return fmt.Errorf("%s comes too late: options go before the recipients", human.Plain(arg))
		}
	}
	return nil
}

// option obeys one option. Those that are not here do nothing.
func (c *sendmailCall) option(o option) (err error) {
	switch o.letter {
	case 't':
		c.options.FromHeader = true
	case 'i':
		c.options.DotEnds = false
	case 'o':
		if o.value == "i" {
			c.options.DotEnds = false
		}
	case 'f', 'r':
		c.sender, c.hasFrom = o.value, true
	case 'F':
		c.fullName = o.value
	case 'N':
		c.sending.Notify, err = parseNotify(o.value)
	case 'R':
		c.sending.Ret, err = parseRet(o.value)
	case 'V':
		c.sending.EnvID, err = parseEnvID(o.value)
	case 'X':
		err = c.setVERP(o.value)
	case 'B':
		if v := strings.ToLower(o.value); v != "7bit" && v != "8bitmime" {
			err = fmt.Errorf("-B %s: want 7bit or 8bitmime", human.Plain(o.value))
		}
	case 'v':
		c.sending.Trace = c.Err
	case 'b':
		err = c.setMode(o.value)
	case 'q':
		err = c.setFlush(o.value)
	}
	return err
}

func (c *sendmailCall) setMode(value string) error {
	modes := map[string]sendmailMode{"m": modeSubmit, "s": modeSMTP, "p": modeList}
	mode, ok := modes[value]
	if !ok {
		return fmt.Errorf("-b%s is not something that this sendmail does", human.Plain(value))
	}
	c.mode = mode
	return nil
}

// setFlush reads the value of -q: nothing, or what to try, as in -qI and -qR.
func (c *sendmailCall) setFlush(value string) error {
	c.mode = modeFlush
	if value == "" {
		return nil
	}
	what := value[1:]
	switch value[0] {
	case 'I':
		c.flush = []string{what}
	case 'R':
		c.flush = []string{"--recipient", "*" + what + "*"}
	case 'S':
		c.flush = []string{"--sender", "*" + what + "*"}
	default:
		return errors.New("-q with a time is for a daemon; \"posthaste serve\" needs none")
	}
	if what == "" {
		return fmt.Errorf("-q%s needs a value", value)
	}
	return nil
}

// setVERP reads the value of -X: V, with two delimiters behind it or without. Another one is the file
// for a log of traffic, which there is none of.
func (c *sendmailCall) setVERP(value string) error {
	delimiters, verp := strings.CutPrefix(value, "V")
	if !verp {
		return nil
	}
	if _, ok := smtp.ParseVERP(delimiters, smtp.VERPPossible); !ok && delimiters != "" {
		return fmt.Errorf("-XV%s: want two characters around the recipient, such as -XV+=", human.Plain(delimiters))
	}
	c.sending.VERP, c.sending.Delimiters = true, delimiters
	return nil
}

func parseNotify(text string) (mail.Notify, error) {
	words := map[string]mail.Notify{"never": mail.NotifyNever, "success": mail.NotifySuccess, "failure": mail.NotifyFailure, "delay": mail.NotifyDelay}
	var sum mail.Notify
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		n, ok := words[strings.TrimSpace(word)]
		if !ok {
			return 0, fmt.Errorf("-N %s: want never, or some of success,failure,delay", human.Plain(text))
		}
		sum |= n
	}
	if sum&mail.NotifyNever != 0 && sum != mail.NotifyNever {
		return 0, errors.New("-N: never goes with nothing else")
	}
	return sum, nil
}

func parseRet(text string) (mail.Ret, error) {
	switch strings.ToLower(text) {
	case "full":
		return mail.RetFull, nil
	case "hdrs":
		return mail.RetHeaders, nil
	}
	return 0, fmt.Errorf("-R %s: want full or hdrs", human.Plain(text))
}

// envIDMax is how long an envelope ID can be (RFC 3461 4.4).
const envIDMax = 100

func parseEnvID(text string) (string, error) {
	for i := 0; i < len(text); i++ {
		if text[i] < ' ' || text[i] > '~' {
			return "", errors.New("-V: an envelope ID is printable ASCII")
		}
	}
	if text == "" || len(text) > envIDMax {
		return "", fmt.Errorf("-V: an envelope ID has 1 to %d characters", envIDMax)
	}
	return text, nil
}
