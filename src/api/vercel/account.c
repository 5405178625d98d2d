/*
 * What clients ask about their account before they use sandboxes: a user, its team, its project. There is one of
 * each, since tenants have no others here; names that a client uses for them are accepted.
 */
#include "api/vercel/vercel_internal.h"

#define BASE ATOLL_VERCEL_BASE
#define NONE ATOLL_BODY_NONE
#define READ ATOLL_SCOPE_READ

#define TEAM "team_atoll"
#define USER "{\"user\":{\"id\":\"atoll\",\"username\":\"atoll\",\"defaultTeamId\":\"" TEAM "\"}}"
#define TEAM_MEMBERS                                                                      \
    "\"id\":\"" TEAM "\",\"slug\":\"atoll\",\"name\":\"atoll\",\"membership\":{\"role\":" \
    "\"OWNER\"},\"billing\":{\"plan\":\"pro\"}"
#define TEAMS "{\"teams\":[{" TEAM_MEMBERS "}],\"pagination\":{\"count\":1,\"next\":null}}"

static void reply(struct atoll_api_call *call, const char *text, size_t n)
{
    atoll_api_reply_text(call, 200, "application/json", text, n);
}

static void user(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                 size_t n ATOLL_UNUSED)
{
    reply(call, USER, sizeof(USER) - 1);
}

static void teams(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                  size_t n ATOLL_UNUSED)
{
    reply(call, TEAMS, sizeof(TEAMS) - 1);
}

static void team(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                 size_t n ATOLL_UNUSED)
{
    reply(call, "{" TEAM_MEMBERS "}", sizeof("{" TEAM_MEMBERS "}") - 1);
}

static void project(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "id", call->params.template);
    atoll_json_text(&out, "name", call->params.template);
    atoll_json_text(&out, "accountId", TEAM);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static const struct atoll_route rows[] = {
    {ATOLL_GET, BASE "/v2/user", READ, NONE, user, NULL},
    {ATOLL_GET, BASE "/v2/teams", READ, NONE, teams, NULL},
    {ATOLL_GET, BASE "/v2/teams/{key}", READ, NONE, team, NULL},
    {ATOLL_GET, BASE "/v2/projects/{key}", READ, NONE, project, NULL},
};

const struct atoll_routes atoll_vercel_account_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_vercel_control_protocol, atoll_vercel_params,
    ATOLL_VERCEL_PARAM_COUNT};
