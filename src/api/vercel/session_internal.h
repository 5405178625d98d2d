#pragma once
#include <jansson.h>
#include "api/fields.h"
#include "api/vercel/vercel.h"

/* Shared by the files of requests to one session. */

ATOLL_VERCEL_HANDLER(fs_mkdir); /* session_files.c */
