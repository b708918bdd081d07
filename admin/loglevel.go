package admin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// A LogLeveler is the level of the host's log. Its methods may be called concurrently.
type LogLeveler interface {
	// LogLevel returns the level and where it comes from.
	LogLevel() LogLevel
	// SetLogLevel sets the level until the configuration is read again, or for some time unless that is 0. by is who wants it.
	SetLogLevel(level slog.Level, by string, d time.Duration)
	// ResetLogLevel sets the level of the configuration.
	ResetLogLevel(by string)
}

// A LogLevel is the level of the log.
type LogLevel struct {
	Level      string     `json:"level" enum:"debug,info,warn,error" doc:"Lines below it are not written."`
	From       string     `json:"from" example:"uid 0" doc:"Where it comes from: who ordered it, or where log.level is set."`
	Ordered    bool       `json:"ordered" doc:"Whether it was ordered; a reload, the end of the time and a restart set the one of the configuration."`
	Until      *time.Time `json:"until,omitempty" doc:"When the level of the configuration returns; absent without an end."`
	Configured string     `json:"configured" enum:"debug,info,warn,error" doc:"The level of the configuration in force."`
}

// A LogLevelOrder sets the level of the log.
type LogLevelOrder struct {
	Level string `json:"level" enum:"debug,info,warn,error,configured" doc:"The level; configured is that of the configuration."`
	For   string `json:"for,omitempty" maxLength:"32" example:"10m" doc:"How long, from now on; units s, m, h, d, w. Absent: until the next reload or restart."`
}

type (
	logLevelInput  struct{ Body LogLevelOrder }
	logLevelOutput struct{ Body LogLevel }
)

// LogLevels are the names of levels, the lowest first.
func LogLevels() []string { return []string{"debug", "info", "warn", "error"} }

// LogLevelName returns the name of a level as in LogLevels.
func LogLevelName(level slog.Level) string { return strings.ToLower(level.String()) }

func noLogLevel() error {
	return huma.Error501NotImplemented("the level of this host's log cannot be changed")
}

func (s *Server) logLevel(context.Context, *struct{}) (*logLevelOutput, error) {
	if s.cfg.LogLevel == nil {
		return nil, noLogLevel()
	}
	return &logLevelOutput{s.cfg.LogLevel.LogLevel()}, nil
}

func (s *Server) setLogLevel(ctx context.Context, in *logLevelInput) (*logLevelOutput, error) {
	if s.cfg.LogLevel == nil {
		return nil, noLogLevel()
	}
	if err := s.refuse(); err != nil {
		return nil, err
	}
	configured := in.Body.Level == "configured"
	var d time.Duration
	if in.Body.For != "" {
		var err error
		if d, err = ParseAge(in.Body.For); err != nil || d <= 0 || configured {
			return nil, s.problem(ctx, &fieldError{"for", in.Body.For, fmt.Errorf("want a time such as 30m, 4h or 1d, with a level")})
		}
	}
	by := orderedBy(ctx)
	s.log.Info("order", "verb", "log level", "by", by, "value", in.Body.Level, "for", in.Body.For)
	if configured {
		s.cfg.LogLevel.ResetLogLevel(by)
	} else {
		var level slog.Level
		if err := level.UnmarshalText([]byte(in.Body.Level)); err != nil {
			return nil, s.problem(ctx, &fieldError{"level", in.Body.Level, err})
		}
		s.cfg.LogLevel.SetLogLevel(level, by, d)
	}
	return &logLevelOutput{s.cfg.LogLevel.LogLevel()}, nil
}
