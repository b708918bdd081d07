// Package flow decides to whom a message counts where capacity is shared: to which
// class, tenant and flow it belongs ([mail.Flow]).
//
// Classes and tenants are found by rules: the first one that matches, in the order of
// the configuration, applies. A client that is permitted to may name them itself in
// header fields, which are removed. Without configuration there are two classes: bulk
// for mail that says that it is bulk, and normal for all other; and the tenant is the
// client's network. The flow is the envelope sender, reduced to what stays the same
// when a program sends one mailing under many addresses (sender.go).
//
// The package is pure: [Rules.Classify] is called once per message, when its content
// is complete, and reads nothing but its arguments. docs/flows.md explains the rules
// to operators.
package flow
