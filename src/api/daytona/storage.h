#pragma once
#include "api/daytona/daytona_internal.h"

/*
 * Object storage, as far as SDKs use it: they upload the files of an image as archives before they ask for
 * its build. It speaks the part of the S3 protocol that they need, with one bucket. An object is a build
 * context of the tenant (engine/build/build.h), named by the hash that the SDK has computed of the files:
 * TENANT/HASH/context.tar. Objects cannot be read; they are unpacked as they arrive.
 *
 * The credential is the session token of push access, which the S3 clients send with each request. It is for
 * one tenant and an hour, and ends with the key that it was given to. Signatures are not checked: they would
 * prove the possession of a secret that was sent along with the token.
 */
#define ATOLL_DAYTONA_STORAGE ATOLL_DAYTONA_BASE "/object-storage"
#define ATOLL_DAYTONA_BUCKET "contexts"
#define ATOLL_DAYTONA_HASH_MAX 64

extern const struct atoll_routes atoll_daytona_storage_routes; /* storage.c */

/* Answers of S3. code: such as "NoSuchUpload". */
void atoll_daytona_storage_refuse(struct atoll_api_call *call, int status, const char *code,
                                  const char *text);
/* The hash in the path of the request, which must name an object of the caller's tenant; else the call has
 * been answered, and the result is false. */
bool atoll_daytona_storage_hash(struct atoll_api_call *call, char out[ATOLL_DAYTONA_HASH_MAX + 1]);

/*
 * storage_parts.c: uploads in parts, which clients send at the same time and in any order. Parts are
 * unpacked in the order of their numbers: one that comes early waits, and its body is not read meanwhile. So
 * no part is stored. A part that broke off can be sent again.
 */
#define ATOLL_DAYTONA_UPLOADS_MAX 64       /* in progress or waiting, of all tenants */
#define ATOLL_DAYTONA_TENANT_UPLOADS_MAX 2 /* each takes a place of ATOLL_UNPACKS */
#define ATOLL_DAYTONA_EARLY_MAX 8          /* parts that wait, of one upload */
void atoll_daytona_parts_open(struct atoll_api_call *call, const char *hash);
void atoll_daytona_parts_write(struct atoll_api_call *call);
void atoll_daytona_parts_finish(struct atoll_api_call *call, const uint8_t *body, size_t n);
void atoll_daytona_parts_abort(struct atoll_api_call *call);
void atoll_daytona_parts_done(struct atoll_daytona *daytona);
