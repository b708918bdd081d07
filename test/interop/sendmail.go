package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// startSendmail starts Sendmail, with a configuration that refuses at random and
// passes all else on to our receiver.
func startSendmail(ctx context.Context, dir string) (*process, error) {
	home := filepath.Join(dir, "sendmail")
	if err := os.MkdirAll(filepath.Join(home, "queue"), 0o700); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"sendmail.cf": sendmailConfig(home), "service.switch": "hosts\tfiles\naliases\tfiles\n"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	p, err := startProcess(dir, "sendmail", "/usr/libexec/sendmail/sendmail", "-C", filepath.Join(home, "sendmail.cf"), "-bD", "-q1s")
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, sendmailAddr)
}

// sendmailConfig is a whole sendmail.cf, without m4. Ruleset 3 takes the angle
// brackets off an address, which nothing else rewrites, and ruleset 0 hands
// everything to one mailer. Ruleset check_SOMETHING is asked at each stage.
func sendmailConfig(home string) string {
	host, port, _ := strings.Cut(sendmailAddr, ":")
	_, receiverPort, _ := strings.Cut(receiverAddr, ":")
	return fmt.Sprintf(`V10/Berkeley
Djsendmail.interop.test
Cwsendmail.interop.test
Troot
O QueueDirectory=%[1]s/queue
O PidFile=%[1]s/pid
O ServiceSwitchFile=%[1]s/service.switch
O DaemonPortOptions=Name=MTA,Addr=%[2]s,Port=%[3]s
O DeliveryMode=background
O SuperSafe=True
O QueueLA=10000
O RefuseLA=10000
O DelayLA=10000
O MinQueueAge=0
O Timeout.ident=0
O ConnectionCacheSize=0
O RunAsUser=root
O DefaultUser=root
O TrustedUser=root
O EightBitMode=pass8
O LogLevel=9
HReceived: from $s by $j with $r id $i; $b
Karith arith
S3
R$*<$*>$*	$2
S4
S0
R$+	$#relay $@[127.0.0.1] $:$1
%[5]s%[6]s%[7]s%[8]sMrelay, P=[IPC], F=mDFMuXk8, S=0, R=0, E=\r\n, L=0, T=DNS/RFC822/SMTP, A=TCP $h %[4]s
Mlocal, P=/bin/false, F=lsDFM, S=0, R=0, T=DNS/RFC822/X-Unix, A=false
Mprog, P=/bin/false, F=lsDFM, S=0, R=0, T=X-Unix/X-Unix/X-Unix, A=false
`, home, host, port, receiverPort,
		sendmailDice("mail", stageMail), sendmailDice("rcpt", stageRcpt), sendmailDice("data", stageData), sendmailDice("eom", stageEnd))
}

// sendmailDice is the ruleset for a stage. It throws a number and compares it with
// those that mean a refusal, in the same parts as dice. The port of the client comes
// into it because each connection is served by a child that has inherited the state
// of the generator.
func sendmailDice(ruleset, stage string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Scheck_%s\nR$*\t$: $(arith r $@ 1 $@ 1000 $: 0 $)\n", ruleset)
	b.WriteString("R$*\t$: $1 $(arith * $@ $&{client_port} $@ 37 $: 0 $)\nR$-$-\t$: $(arith + $@ $1 $@ $2 $: 0 $)\n")
	fmt.Fprintf(&b, "R$*\t$: $(arith %% $@ $1 $@ %d $: 0 $)\n", 6*oneIn)
	for n, code := range []string{1: "550", 2: "421", 3: "450", 4: "450", 5: "450", 6: "450"} {
		switch code {
		case "550":
			fmt.Fprintf(&b, "R%d\t$#error $@ 5.7.1 $: \"550 refused at %s\"\n", n, stage)
		case "421", "450":
			fmt.Fprintf(&b, "R%d\t$#error $@ 4.7.1 $: \"%s refused at %s\"\n", n, code, stage)
		}
	}
	return b.String()
}
