#pragma once
#include "base/defs.h"

/*
 * Intrusive doubly linked list: a struct embeds a node, a head is a node linked to itself.
 * The list owns nothing.
 */
struct atoll_list {
    struct atoll_list *prev, *next;
};

static inline void atoll_list_init(struct atoll_list *head)
{
    head->prev = head->next = head;
}

static inline bool atoll_list_empty(const struct atoll_list *head)
{
    return head->next == head;
}

static inline void atoll_list_push_back(struct atoll_list *head, struct atoll_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* Safe on a node that is zeroed or already removed. */
static inline void atoll_list_remove(struct atoll_list *node)
{
    if (!node->next)
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = NULL;
}

/* The current node may be removed (and freed) in the body. */
#define ATOLL_LIST_FOREACH(head, node)                                                      \
    for (struct atoll_list *node = (head)->next, *node##_next = node->next; node != (head); \
         node = node##_next, node##_next = node->next)
