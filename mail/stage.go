package mail

// A Stage is the part of an SMTP or LMTP conversation in which a host gave a reply.
type Stage uint8

const (
	StageUnknown  Stage = iota // not known, or the reply is not a host's
	StageGreeting              // the greeting, before any command
	StageEhlo                  // EHLO, HELO or LHLO
	StageAuth                  // AUTH, or a response to a challenge
	StageMail                  // MAIL
	StageRcpt                  // RCPT
	StageData                  // DATA
	StageContent               // the content
	Stages        = iota
)

var stageNames = [Stages]string{"unknown", "greeting", "ehlo", "auth", "mail", "rcpt", "data", "content"}

// String returns the word for logs and the configuration.
func (s Stage) String() string { return stageNames[s] }

// ParseStage returns the stage of a word, other than StageUnknown; false if it is none.
func ParseStage(word string) (Stage, bool) {
	for s := StageGreeting; s < Stages; s++ {
		if stageNames[s] == word {
			return s, true
		}
	}
	return StageUnknown, false
}

// StageNames returns the words of all stages, in the order of a conversation.
func StageNames() []string { return stageNames[StageGreeting:] }
