#pragma once
#include "api/router.h"

/* Our own REST API, /api/…; docs/api.md describes it. */
extern const struct atoll_routes atoll_rest_routes;
/* Those about what is kept of sandboxes that are gone. */
extern const struct atoll_routes atoll_rest_artifact_routes;
