package admin

import "context"

// An Identity is who sends a request, and what it may do.
type Identity struct {
	Name  string `json:"name" doc:"The name of the token; or, on the unix socket, the user."`
	Scope string `json:"scope" enum:"read,operate" doc:"read: it may look at everything; operate: it may also give orders."`
}

// ownerKey is the context key for the Identity of a token's owner.
type ownerKey struct{}

type identityOutput struct{ Body Identity }

// identity lets a client find out what its token is worth before it offers orders to a person.
func (s *Server) identity(ctx context.Context, _ *struct{}) (*identityOutput, error) {
	if owner, ok := ctx.Value(ownerKey{}).(Identity); ok {
		return &identityOutput{owner}, nil
	}
	return &identityOutput{Identity{orderedBy(ctx), PermissionOperate.String()}}, nil
}
