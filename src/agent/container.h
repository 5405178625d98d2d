#pragma once
#include "agent/agent.h"

/*
 * Facts that the agent determines in a container started by a container engine: the default user,
 * the environment of the image, and the counters of its cgroup. Called before any code of the
 * tenant runs, so that a tenant cannot change them.
 */

/* who: the image's user, NAME or NUMBER with optional :GROUP; "": `user` if that exists, else root.
 * Creates the user's home if it is missing. Strings live as long as the process. */
int atoll_agent_container_user(struct atoll_agent_config *config, const char *who,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* The default user is the one the agent runs as. */
int atoll_agent_own_user(struct atoll_agent_config *config,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Gives a new volume (empty and owned by root) to the default user. Call after the user is
 * known. */
void atoll_agent_container_own(const struct atoll_agent_config *config, const char *dir);
/* Uses the agent's environment for commands, without variables about the agent's own user. */
int atoll_agent_container_env(struct atoll_agent_config *config,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Commands start in the agent's working directory, which is that of the image, unless it is "/". */
void atoll_agent_container_workdir(struct atoll_agent_config *config);
/* Opens the cgroup's counters if the engine exposes them; optional. */
void atoll_agent_container_cgroup(struct atoll_agent_config *config);
