package admin

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"
)

// A Configuration is the configuration of the host: what is in force, and its file. Its
// methods are called from several goroutines.
type Configuration interface {
	// Running returns what is in force, as TOML or JSON; with changed, without parameters that
	// have their defaults.
	Running(changed, asJSON bool) (RunningConfiguration, error)
	// Where returns the value of a parameter by its full name, in TOML, and where it is set;
	// both are empty if there is no such parameter.
	Where(key string) (value, origin string)
	// Reload puts the file into force, or with dryRun only says what that would do. If the
	// file cannot be put into force, nothing changes; the error is a *RefusedConfiguration
	// if that is because of what the file says.
	Reload(ctx context.Context, dryRun bool) (Reloaded, error)
}

// A RunningConfiguration is what is in force.
type RunningConfiguration struct {
	Text    string         `json:"text" doc:"The configuration: TOML, or JSON as a text. Parameters that are listed in pending are shown with their new values."`
	Pending []ConfigChange `json:"pending" doc:"What earlier reloads have read and takes effect at the next start."`
}

// A ConfigChange is one difference between two configurations.
type ConfigChange struct {
	Key     string `json:"key" example:"transport.smtp.smtp_connect_timeout" doc:"The full name of a parameter, or of a table."`
	Old     string `json:"old" doc:"In TOML; empty if it did not exist."`
	New     string `json:"new" doc:"In TOML; empty if it no longer exists."`
	Restart bool   `json:"restart" doc:"Whether it takes effect at the next start only."`
}

// A ConfigWarning is about a value that is allowed and probably a mistake.
type ConfigWarning struct {
	Key     string `json:"key" doc:"The full name of the parameter."`
	Line    int    `json:"line,omitempty" doc:"The line of the file."`
	Message string `json:"message"`
}

// Reloaded is what a reload has changed, or would change.
type Reloaded struct {
	Changes  []ConfigChange  `json:"changes" doc:"The differences between the configuration in force and the file, in the order of the reference."`
	Restart  []string        `json:"restart,omitempty" doc:"Parameters with values that take effect at the next start only, those of earlier reloads among them."`
	Warnings []ConfigWarning `json:"warnings,omitempty"`
}

// A RefusedConfiguration is a file with mistakes.
type RefusedConfiguration struct {
	Mistakes []string // each with its place
	More     int      // mistakes that are not in the list
}

func (*RefusedConfiguration) Error() string { return "the configuration has mistakes" }

type runningInput struct {
	Changed bool   `query:"changed" doc:"Leave out parameters that have their defaults."`
	Format  string `query:"format" enum:"toml,json" default:"toml"`
}

type runningOutput struct{ Body RunningConfiguration }

func (s *Server) running(ctx context.Context, in *runningInput) (*runningOutput, error) {
	if s.cfg.Configuration == nil {
		return nil, huma.Error501NotImplemented("this host has no configuration to show")
	}
	running, err := s.cfg.Configuration.Running(in.Changed, in.Format == "json")
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	running.Pending = append([]ConfigChange{}, running.Pending...)
	return &runningOutput{running}, nil
}

type reloadInput struct {
	Body struct {
		DryRun bool `json:"dry_run,omitempty" doc:"Only say what would change."`
	}
}

type reloadOutput struct{ Body Reloaded }

// reload reads the configuration again. A mistake in it changes nothing.
func (s *Server) reload(ctx context.Context, in *reloadInput) (*reloadOutput, error) {
	if s.cfg.Configuration == nil {
		return nil, huma.Error501NotImplemented("this host has no configuration to read again")
	}
	if !in.Body.DryRun {
		if err := s.refuse(); err != nil {
			return nil, err
		}
		s.log.Info("order", "verb", "reload", "by", orderedBy(ctx))
	}
	done, err := s.cfg.Configuration.Reload(ctx, in.Body.DryRun)
	var refused *RefusedConfiguration
	if errors.As(err, &refused) {
		var list []error
		for _, text := range refused.Mistakes {
			list = append(list, &huma.ErrorDetail{Message: text})
		}
		if refused.More > 0 {
			list = append(list, &huma.ErrorDetail{Message: "and more mistakes", Value: refused.More})
		}
		return nil, huma.Error422UnprocessableEntity(refused.Error()+"; the old one stays in force", list...)
	}
	if err != nil {
		return nil, huma.Error422UnprocessableEntity("the configuration cannot be put into force; the old one stays: " + err.Error())
	}
	done.Changes = append([]ConfigChange{}, done.Changes...)
	return &reloadOutput{done}, nil
}

// A Parameter is the value of a parameter in force, and where it is set.
type Parameter struct {
	Key    string `json:"key"`
	Value  string `json:"value" doc:"In TOML."`
	Origin string `json:"origin" example:"line 12"`
}

// A ParameterList is the parameters that were asked for, without unknown ones.
type ParameterList struct {
	Parameters []Parameter `json:"parameters"`
}

type parametersInput struct {
	Keys []string `query:"key,explode" minItems:"1" maxItems:"500" example:"[\"transport.smtp.destination_rate\"]" doc:"Full names of parameters."`
}

type parametersOutput struct{ Body ParameterList }

func (s *Server) parameters(_ context.Context, in *parametersInput) (*parametersOutput, error) {
	if s.cfg.Configuration == nil {
		return nil, huma.Error501NotImplemented("this host has no configuration to show")
	}
	list := ParameterList{Parameters: []Parameter{}}
	for _, key := range in.Keys {
		if value, origin := s.cfg.Configuration.Where(key); origin != "" {
			list.Parameters = append(list.Parameters, Parameter{key, value, origin})
		}
	}
	return &parametersOutput{list}, nil
}
