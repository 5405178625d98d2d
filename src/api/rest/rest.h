#pragma once
#include "api/facade.h"

/* Atoll's own REST API, /api/…; docs/api.md describes it. */
extern const struct atoll_facade atoll_rest_facade;
