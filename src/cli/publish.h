#pragma once
#include "cli/client.h"

/*
 * --publish: ports of a new sandbox at addresses of the host.
 */

/* INVALID_ARGUMENT: an item is malformed. Call it before the sandbox is created. */
int atoll_cli_publish_check(const struct atoll_cli_list *ports,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Publishes the ports; if that fails, destroys the sandbox. */
int atoll_cli_publish(struct atoll_cli *cli, const char *sandbox,
                      const struct atoll_cli_list *ports, struct atoll_error *err) ATOLL_MUST_CHECK;
