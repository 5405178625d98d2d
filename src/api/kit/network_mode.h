#pragma once
#include "api/call.h"

/* The network of sandboxes whose request does not choose one, in facades where the internet is the
 * default: the internet, if the operator permits it and a provider enforces policies; else none. */
enum atoll_network atoll_api_network_mode(const struct atoll_api_call *call);
