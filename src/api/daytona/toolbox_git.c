/*
 * Git repositories of a sandbox: /git of the toolbox.
 */
#include "api/daytona/daytona.h"

const struct atoll_routes atoll_daytona_git_routes = {NULL, 0, &atoll_daytona_toolbox_protocol,
                                                      NULL, 0};
