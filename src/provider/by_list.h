#pragma once
#include "provider/provider.h"

/*
 * look() and health() for a provider whose list() is cheap and tells all there is to know.
 */
void atoll_inspect_by_list(struct atoll_provider *p, const struct atoll_spec *spec,
                           atoll_provider_inspected_fn *done, void *arg);
void atoll_health_by_list(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg);
