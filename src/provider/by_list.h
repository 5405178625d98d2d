#pragma once
#include "provider/provider.h"

/*
 * inspect() and health() for a provider whose list() is cheap and complete.
 */
void atoll_inspect_by_list(struct atoll_provider *p, const struct atoll_spec *spec,
                           atoll_provider_inspected_fn *done, void *arg);
void atoll_health_by_list(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg);
