#pragma once
#include "engine/engine_internal.h"

/*
 * Templates at providers that have images instead of layers (caps.loads): a version is exported to an archive
 * once (export.h), and the provider loads it as the image "atoll-layer:HEX". The name is made from
 * the names of the layers; the config of the version is not part of the image, because the engine applies it.
 *
 * Requests for the same image at the same provider share one load. Thread: the loop's.
 */
#define ATOLL_LOADED_IMAGE_MAX 80

/* Whether the spec needs an image of the provider. */
bool atoll_load_is_needed(struct atoll_provider *provider, const struct atoll_spec *spec);
/* image: its name, for the spec of create(). done may be called at once. The version must not be removed
 * meanwhile. FAILED_PRECONDITION: the template cannot be exported. */
void atoll_load(struct atoll_engine *engine, const struct atoll_provider_entry *entry,
                const struct atoll_version *version, char image[static ATOLL_LOADED_IMAGE_MAX],
                atoll_done_fn *done, void *arg);
