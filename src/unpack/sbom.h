#pragma once
#include "base/error.h"

/*
 * A list of the packages in a stack of layers, as CycloneDX 1.5 JSON: those of dpkg, apk, pip and npm. A database
 * of rpm is named in the properties, but not read. Sorted, without times: equal trees give equal lists.
 */

/* dirs: paths of the layers, bottom first; name: of the template, or NULL. Blocking. INTERNAL,
 * RESOURCE_EXHAUSTED. */
int atoll_sbom_write(char *const *dirs, size_t count, const char *name, int out,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
