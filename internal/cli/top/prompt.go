package top

import (
	"slices"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/posthaste-mta/posthaste/internal/human"
)

// A promptKind is what is asked at the foot of the screen.
type promptKind uint8

const (
	promptNone    promptKind = iota
	promptText               // a line of text
	promptChoice             // one of several, by its number
	promptConfirm            // yes or no
)

// A prompt asks something at the foot of the screen.
type prompt struct {
	kind    promptKind
	ask     string // the question
	hint    string // what the keys do; "": the usual ones
	wrong   string // why the last answer cannot be taken
	input   textinput.Model
	choices int
	// answer takes the text, or the number of the choice, or is called for a yes. An error
	// keeps the prompt open.
	answer func(text string, choice int) (tea.Cmd, error)
}

func (p *prompt) open() bool { return p.kind != promptNone }

// askText asks for a line of text.
func (m *model) askText(question, value string, answer func(text string) (tea.Cmd, error)) tea.Cmd {
	input := textinput.New()
	input.Prompt = "> "
	input.CharLimit = 400
	input.KeyMap.Paste = key.NewBinding() // the terminal pastes; the library would run a program
	input.SetWidth(max(m.width-4, 10))
	input.SetValue(value)
	input.CursorEnd()
	m.prompt = prompt{kind: promptText, ask: question, input: input, answer: func(text string, _ int) (tea.Cmd, error) { return answer(text) }}
	return m.prompt.input.Focus()
}

// askChoice asks for one of several things.
func (m *model) askChoice(question string, choices int, answer func(choice int) tea.Cmd) {
	m.prompt = prompt{kind: promptChoice, ask: question, choices: choices, answer: func(_ string, choice int) (tea.Cmd, error) { return answer(choice), nil }}
}

// askConfirm asks for a yes.
func (m *model) askConfirm(question string, yes func() tea.Cmd) {
	m.prompt = prompt{kind: promptConfirm, ask: question, answer: func(string, int) (tea.Cmd, error) { return yes(), nil }}
}

// pressPrompt gives a key to the open prompt.
func (m *model) pressPrompt(msg tea.KeyPressMsg) tea.Cmd {
	p := &m.prompt
	name := msg.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "esc", p.kind == promptConfirm && (name == "n" || name == "N" || name == "q"):
		m.prompt = prompt{}
		m.say(toneNone, "Nothing was done.")
		return nil
	case p.kind == promptText && name == "enter":
		return m.answered(p.input.Value(), 0)
	case p.kind == promptConfirm && (name == "y" || name == "Y"):
		return m.answered("", 0)
	case p.kind == promptChoice && len(name) == 1 && name[0] >= '1' && int(name[0]-'1') < p.choices:
		return m.answered("", int(name[0]-'1'))
	}
	return p.update(msg)
}

// answered gives an answer to who has asked, who may ask something else.
func (m *model) answered(text string, choice int) tea.Cmd {
	answer := m.prompt.answer
	asked := m.prompt
	m.prompt = prompt{}
	cmd, err := answer(text, choice)
	if err != nil {
		m.prompt = asked
		m.prompt.wrong = err.Error()
	}
	return cmd
}

// update passes a message on to the line of text.
func (p *prompt) update(msg tea.Msg) tea.Cmd {
	if p.kind != promptText {
		return nil
	}
	var cmd tea.Cmd
	p.input, cmd = p.input.Update(msg)
	return cmd
}

// lines draws the prompt, in at most so many lines. A question that is longer, as with a reason that is a long reply,
// loses its middle.
func (p *prompt) lines(width, most int, styles *palette) []string {
	var lines []string
	if p.wrong != "" {
		lines = append(lines, styles[toneBad].Render(fit(human.Plain(p.wrong), width)))
	}
	ask, room := human.Wrap(human.Plain(p.ask), width), max(most-len(lines)-2, 3) // the answer and the hint are below
	if cut := len(ask) - room; cut > 0 {
		ask = slices.Replace(ask, room-2, room-1+cut, "…")
	}
	for _, text := range ask {
		lines = append(lines, styles[toneTitle].Render(fit(text, width)))
	}
	hint := p.hint
	switch p.kind {
	case promptText:
		lines = append(lines, fit(p.input.View(), width))
		hint = "Enter goes on · Esc stops"
	case promptConfirm:
		hint = "y yes · n no"
	case promptChoice:
		hint = "the number chooses · Esc stops"
	}
	return append(lines, styles[toneFaint].Render(fit(hint, width)))
}
