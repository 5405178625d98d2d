#pragma once
#include "api/router.h"

/* Atoll's own REST API, /api/…; docs/api.md describes it. */
extern const struct atoll_routes atoll_rest_routes;
/* Routes for artifacts of destroyed sandboxes. */
extern const struct atoll_routes atoll_rest_artifact_routes;
