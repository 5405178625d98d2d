#pragma once
#include "agent/agent.h"

/*
 * What the agent finds out by itself in a container that a container engine started: the default
 * user, the environment of the image, and the counters of its cgroup. Before any tenant's code
 * runs, so that a tenant cannot move any of it.
 */

/* who: what the image says, NAME or NUMBER, with :GROUP or without; "": `user` where there is one,
 * else root. The user's home is made where it is missing. Strings live as long as the process. */
int atoll_agent_container_user(struct atoll_agent_config *config, const char *who,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* The default user is the one the agent runs as. */
int atoll_agent_own_user(struct atoll_agent_config *config,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* A new volume is root's and empty: it becomes the default user's. After the user is known. */
void atoll_agent_container_own(const struct atoll_agent_config *config, const char *dir);
/* The agent's own environment becomes that of commands, but for what says who it is. */
int atoll_agent_container_env(struct atoll_agent_config *config,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Where the engine shows the cgroup; nothing is lost where it does not. */
void atoll_agent_container_cgroup(struct atoll_agent_config *config);
