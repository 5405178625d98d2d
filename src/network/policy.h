#pragma once
#include <jansson.h>
#include <netinet/in.h>
#include "base/error.h"

/*
 * What a sandbox may reach. One type for every API; one pure function decides. A policy is stored and
 * sent to atoll-egress as JSON in its canonical form (docs/network.md), so that the daemon, the store
 * and atoll-egress read the same text with this code.
 *
 * Rules are ordered: the first one that matches decides, and `otherwise_allow` decides when none does.
 * Facades choose the order: in our own API deny rules come first, in E2B's allow rules do.
 */
#define ATOLL_NETWORK_RULES_MAX 1000
#define ATOLL_NETWORK_TRANSFORMS_MAX 100
#define ATOLL_NETWORK_HEADERS_MAX 20
#define ATOLL_NETWORK_JSON_MAX (128 * 1024)

/* A destination: a domain or a range of addresses, with ports. */
struct atoll_network_target {
    bool any;                       /* "*": every name and address; then only the ports count */
    char *domain;                   /* lower case, without the "*."; NULL: a range of addresses */
    bool subdomains;                /* "*.example.org": every name below it, not the name itself */
    struct in6_addr address;        /* IPv4 as ::ffff:a.b.c.d; an IPv6 range never holds IPv4 */
    uint8_t bits;                   /* length of the prefix; 96 more for IPv4 */
    uint16_t port_first, port_last; /* 0, 0: every port */
};

struct atoll_network_rule {
    bool allow;
    struct atoll_network_target target;
};

struct atoll_network_header {
    char *name, *value;
};

/* What is done with HTTP requests to a domain; TLS is ended in atoll-egress for it. */
struct atoll_network_transform {
    struct atoll_network_target target; /* a domain */
    json_t *match;                      /* owned; the requests it is for (match.c); NULL: all */
    /* Replace headers of the same name; "${secret.NAME}" in a value stands for a secret of the tenant. */
    struct atoll_network_header headers[ATOLL_NETWORK_HEADERS_MAX];
    size_t header_count;
    char *forward;   /* URL to which requests go instead; NULL: where the client wanted */
    uint16_t status; /* not 0: a fixed answer with this status and body; nothing is connected */
    char *body;
    /* Of that answer. Placeholders of secrets are not filled. */
    struct atoll_network_header answer_headers[ATOLL_NETWORK_HEADERS_MAX];
    size_t answer_header_count;
};

struct atoll_network_policy {
    bool otherwise_allow;
    struct atoll_network_rule *rules;
    size_t rule_count;
    struct atoll_network_transform *transforms;
    size_t transform_count;
    char network[65];    /* name of the tenant's isolated network; "": none */
    uint32_t mbps;       /* in each direction, 10^6 bits a second; 0: no limit */
    char *proxy_address; /* "HOST:PORT" of a SOCKS5 proxy for all connections; NULL: direct */
    char *proxy_user, *proxy_password;
};

/* What the operator permits at most, whatever a policy says (docs/network.md "The operator's bound"). */
struct atoll_network_bound {
    struct atoll_network_rule *rules; /* deny rules that no policy can undo */
    size_t rule_count;
    struct atoll_network_target *internal; /* internal addresses that sandboxes may reach */
    size_t internal_count;
};

struct atoll_network_query {
    const char *name;               /* from SNI, Host or a remembered DNS answer; NULL: unknown */
    const struct in6_addr *address; /* NULL: the name is about to be resolved */
    uint16_t port; /* 0 with address NULL; an address with port 0: any that the bound permits */
};

enum atoll_network_reason {
    ATOLL_NETWORK_BY_RULE,     /* `rule` decided */
    ATOLL_NETWORK_BY_DEFAULT,  /* no rule matched */
    ATOLL_NETWORK_BY_OPERATOR, /* a rule of the operator denies it */
    ATOLL_NETWORK_BY_INTERNAL, /* an internal address that the operator does not allow */
};

struct atoll_network_decision {
    bool allow;
    enum atoll_network_reason reason;
    size_t rule; /* BY_RULE: index in the policy; BY_OPERATOR: in the bound */
};

/* Decides. Pure. A query without an address asks whether the name may be resolved: rules for addresses
 * then match only if they cover every address (deny), or count as possibly allowing it (allow); deny
 * rules for some ports do not count. A deny rule for IPv4 addresses holds for IPv6 addresses that stand
 * for them (NAT64, 6to4), too. is_internal: the caller knows that the address belongs to this host or to
 * a sandbox. bound may be NULL. */
struct atoll_network_decision atoll_network_decide(const struct atoll_network_policy *policy,
                                                   const struct atoll_network_bound *bound,
                                                   const struct atoll_network_query *query,
                                                   bool is_internal);

/* The same for a name, whatever its address: rules for addresses and the bound do not count. */
struct atoll_network_decision atoll_network_decide_name(const struct atoll_network_policy *policy,
                                                        const char *name);

/* Whether a decision about this address and port, or a transform, can depend on the name of the
 * destination: if not, atoll-egress connects without waiting for the first bytes of the client.
 * is_internal and bound as above. */
bool atoll_network_needs_name(const struct atoll_network_policy *policy,
                              const struct atoll_network_bound *bound,
                              const struct in6_addr *address, uint16_t port, bool is_internal);

/* The first transform for a name, whatever its `match`, or NULL. */
const struct atoll_network_transform *atoll_network_find_transform(
    const struct atoll_network_policy *policy, const char *name);

/* An HTTP request. */
struct atoll_network_message {
    const char *method, *target; /* target: as in the request */
    bool (*header_at)(const void *arg, size_t i, const char **ret_name, const char **ret_value);
    const void *arg;
};

/* The first transform for a name whose `match` holds for the request; one that answers 400 if that depends on
 * a path which servers may read in different ways; or NULL. Thread: one only. */
const struct atoll_network_transform *atoll_network_transform_of(
    const struct atoll_network_policy *policy, const char *name,
    const struct atoll_network_message *message);

/* Whether no request for the name is sent to the server of that name: all are forwarded or answered. */
bool atoll_network_goes_elsewhere(const struct atoll_network_policy *policy, const char *name);

/* Whether an address is never on the public internet: loopback, private, link-local (with the metadata
 * address), shared address space, multicast, reserved; IPv4 in IPv6 (mapped, 6to4, NAT64) by the
 * address inside. The ranges for documentation are not internal. */
bool atoll_network_is_internal(const struct in6_addr *address);
/* Whether it is an IPv4 or IPv6 address that is not internal. For the daemon's own requests to servers that
 * tenants name. */
bool atoll_network_is_public(const struct sockaddr *address);
/* The IPv4 address that an IPv6 address stands for (NAT64, 6to4, IPv4-translated), as ::ffff:a.b.c.d. */
bool atoll_network_inner_address(const struct in6_addr *address, struct in6_addr *ret);

/* Parses "*", "example.org", "*.example.org", "203.0.113.0/24", "2001:db8::/32" or one address, with an
 * optional port or range: "example.org:443", "[2001:db8::1]:8000-8100". Names are compared as they are
 * given (IDNA: "xn--…"), without case and final dot. INVALID_ARGUMENT quotes the text and gives an
 * example. Free with atoll_network_target_done(). */
int atoll_network_target_parse(const char *text, struct atoll_network_target *ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_network_target_done(struct atoll_network_target *target);
/* The text that parses to the same target; out holds ATOLL_NETWORK_TARGET_TEXT bytes. */
#define ATOLL_NETWORK_TARGET_TEXT 320
void atoll_network_target_print(const struct atoll_network_target *target, char *out, size_t cap);

/* From JSON: the canonical form, and the short form of our API: lists "deny" and "allow", in this
 * order, and "name" for "network". "mode" is left to the caller. NULL or null: allows everything.
 * INVALID_ARGUMENT names the field and its position, such as "network.allow[3]"; RESOURCE_EXHAUSTED.
 * The caller frees *ret. */
int atoll_network_policy_parse(const json_t *json, struct atoll_network_policy **ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* The canonical form; a new reference. Parsing it gives an equal policy. */
json_t *atoll_network_policy_json(const struct atoll_network_policy *policy);
struct atoll_network_policy *atoll_network_policy_free(struct atoll_network_policy *policy);

/* Targets of a text, separated by commas or blanks, as an array of JSON; the text may be NULL.
 * INVALID_ARGUMENT as atoll_network_target_parse(). */
int atoll_network_list_parse(const char *text, json_t **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* {"deny": [TARGET, …], "internal": [TARGET, …]}. As atoll_network_policy_parse(). */
int atoll_network_bound_parse(const json_t *json, struct atoll_network_bound **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
json_t *atoll_network_bound_json(const struct atoll_network_bound *bound);
struct atoll_network_bound *atoll_network_bound_free(struct atoll_network_bound *bound);
