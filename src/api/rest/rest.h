#pragma once
#include "api/router.h"

/* Our own REST API, /api/…; docs/api.md describes it. */
extern const struct atoll_routes atoll_rest_routes;
