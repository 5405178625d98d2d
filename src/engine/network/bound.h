#pragma once
#include "engine/engine.h"
#include "network/policy.h"

/*
 * The operator's bound on networks: the widest mode, for all tenants and for single ones, and targets that
 * are denied or allowed whatever a policy says. The mode is checked when a sandbox is created;
 * atoll-egress checks the targets of every connection.
 */
struct atoll_operator_networks {
    char *most;           /* text of --network-max; owned */
    bool denies;          /* some targets are denied */
    char *bound, *closed; /* JSON for atoll-egress, the second denies everything; owned */
};

/* From the engine's configuration. INVALID_ARGUMENT. */
int atoll_operator_networks_open(struct atoll_operator_networks *o,
                                 const struct atoll_engine_config *config,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_operator_networks_close(struct atoll_operator_networks *o);

/* PERMISSION_DENIED: the operator permits less. */
int atoll_network_admit(const struct atoll_engine *engine, const char *tenant,
                        enum atoll_network network, struct atoll_error *err) ATOLL_MUST_CHECK;

/* The policy and the bound of a sandbox as JSON; borrowed. Nothing outside is permitted in the mode
 * isolated, nor to a sandbox whose mode the operator does not permit any more. */
const char *atoll_network_policy_of(const struct atoll_sandbox *sandbox);
const char *atoll_network_bound_of(const struct atoll_sandbox *sandbox);
