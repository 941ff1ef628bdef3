/* plan_objects.h: what the files about objects (instances, dicts, sets, deques, methods of containers) share with the others of
 * this folder. A part of plan.h, which includes it. */
#ifndef DYN_PLAN_OBJECTS_H
#define DYN_PLAN_OBJECTS_H
#include "tracer/region/plan.h"

/* ---- objects.c */
DYN_HIDDEN bool plan_of_instance(Plan *p, PyObject *o, uint32_t slot, PlanValue *v);
DYN_HIDDEN PlanValue plan_instance(Plan *p, uint32_t class, uint32_t reg);
DYN_HIDDEN uint32_t plan_class_reg(Plan *p, uint32_t class);      /* a register with the class, which is taken for granted */
DYN_HIDDEN uint32_t plan_class_of_type(Plan *p, PyTypeObject *t); /* DYN_NONE: its instances can't be looked into */
DYN_HIDDEN Went plan_construct(Plan *p, PyObject *type, const PlanValue *args, uint32_t n, uint32_t slots);
/* A method that syntax or a builtin function calls: passed[0] is the instance, which with the others lies in `slots` values. */
DYN_HIDDEN Went plan_special(Plan *p, const char *name, const PlanValue *passed, uint32_t n, uint32_t slots, PlanReturns returns);
DYN_HIDDEN Went plan_operator(Plan *p, int op, PlanValue a, PlanValue b); /* one of them is an instance */
DYN_HIDDEN Went plan_of_class(Plan *p, PlanValue o, PyObject *name);      /* a property of its class, or a number there */
DYN_HIDDEN PlanHandler plan_call_isinstance;
DYN_HIDDEN Went plan_load_field(Plan *p, PlanValue o, PyObject *name);
DYN_HIDDEN Went plan_store_field(Plan *p, PlanValue o, PyObject *name, PlanValue v);
DYN_HIDDEN bool plan_is_field(Plan *p, const PlanValue *o, PyObject *name); /* it is loaded from the instance itself */
DYN_HIDDEN bool plan_class_method(Plan *p, const PlanValue *o, PyObject *name, PlanValue *function);

/* ---- parts.c: instances that are no objects yet */
DYN_HIDDEN bool plan_new_parts(Plan *p, PyTypeObject *t, PlanValue *out);    /* one without attributes; false: too many */
DYN_HIDDEN PyTypeObject *plan_type_of_instance(Plan *p, const PlanValue *v); /* of an object, too; borrowed */
DYN_HIDDEN bool plan_has_parts(const PlanValue *v, uint32_t number);         /* it is, or has in it, the instance */
DYN_HIDDEN bool plan_load_from_parts(Plan *p, const PlanValue *o, PyObject *name, PlanValue *out); /* false: it isn't there */
DYN_HIDDEN bool plan_store_in_parts(Plan *p, const PlanValue *o, PyObject *name, PlanValue v); /* false: it has to be an object */
DYN_HIDDEN bool plan_whole(Plan *p, PlanValue *v);              /* it becomes an object; others stay; false: plan_unknown */
DYN_HIDDEN uint32_t plan_parts_order(Plan *p, uint32_t number); /* its place in p->ordered */

/* ---- dicts.c */
struct PlanItem;
DYN_HIDDEN bool plan_of_dict(Plan *p, PyObject *o, uint32_t which, PlanValue *v);
DYN_HIDDEN Went plan_dict_item(Plan *p, PlanValue dict, PlanValue key);
DYN_HIDDEN bool plan_store_in_dict(Plan *p, PlanValue dict, PlanValue key, PlanValue v);
DYN_HIDDEN Went plan_dict_get(Plan *p, PlanValue dict, const PlanValue *args, uint32_t n, uint32_t slots);
DYN_HIDDEN Went plan_dict_pop(Plan *p, PlanValue dict, const PlanValue *args, uint32_t n, uint32_t slots);
DYN_HIDDEN Went plan_dict_setdefault(Plan *p, PlanValue dict, const PlanValue *args, uint32_t n, uint32_t slots);
DYN_HIDDEN bool plan_delete_key(Plan *p, PlanValue dict, PlanValue key);
DYN_HIDDEN bool plan_add_to_set(Plan *p, PlanValue set, PlanValue key);
DYN_HIDDEN bool plan_take_from_set(Plan *p, PlanValue set, PlanValue key, bool raises);
DYN_HIDDEN bool plan_in_dict(Plan *p, PlanValue key, PlanValue dict, bool negated, PlanValue *out); /* or a set */
DYN_HIDDEN bool plan_call_dict(Plan *p, bool set, uint32_t n, PlanValue *out);                      /* dict(), set() */
DYN_HIDDEN Went plan_build_map(Plan *p, uint32_t pairs);
DYN_HIDDEN Went plan_build_const_key_map(Plan *p, uint32_t n);
DYN_HIDDEN Went plan_build_set(Plan *p, uint32_t n);
DYN_HIDDEN Went plan_map_add(Plan *p, uint32_t below); /* below: as LIST_APPEND has it */
DYN_HIDDEN Went plan_set_add(Plan *p, uint32_t below);

/* ---- ordered.c: min, max, sorted and list.sort */
DYN_HIDDEN bool plan_is_ordered(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, PyObject *names);
DYN_HIDDEN Went plan_call_ordered(Plan *p, PyObject *o, const PlanValue *args, PyObject *names, uint32_t slots);
DYN_HIDDEN Went plan_sort_list(Plan *p, PlanValue list, const PlanValue *args, PyObject *names, uint32_t slots);
DYN_HIDDEN void plan_arrange(Plan *p, PlanValue list, PlanValue keys, PlanValue reverse); /* keys: it itself, or as many */
DYN_HIDDEN bool plan_is_arrange(PyObject *o);
DYN_HIDDEN Went plan_call_arrange(Plan *p, const PlanValue *args, uint32_t slots);
DYN_HIDDEN void plan_leave_at_sorted(Plan *p);
DYN_HIDDEN bool plan_makes_getter(Plan *p, PyObject *type, const PlanValue *args, uint32_t n, PlanValue *out);
DYN_HIDDEN PyObject *plan_getter_function(PyObject *o);
DYN_HIDDEN bool plan_is_getter(PyObject *o); /* an itemgetter or attrgetter */

/* ---- queues.c: heapq, and deques */
DYN_HIDDEN bool plan_is_heap_function(PyObject *o);
DYN_HIDDEN Went plan_call_heap(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, uint32_t slots);
DYN_HIDDEN bool plan_of_deque(Plan *p, PyObject *o, uint32_t which, PlanValue *v);
DYN_HIDDEN bool plan_deque_item(Plan *p, PlanValue deque, PlanValue index, struct PlanItem *item); /* its first, or last */
DYN_HIDDEN PlanHandler plan_call_deque;
DYN_HIDDEN Went plan_deque_add(Plan *p, PlanValue deque, PlanValue v, bool left, uint32_t slots);
DYN_HIDDEN Went plan_deque_take(Plan *p, PlanValue deque, bool left, uint32_t slots);

/* ---- dict_iterators.c: loops over dicts and sets */
DYN_HIDDEN bool plan_dict_iterator(Plan *p, PlanValue over, PlanValue *out); /* of a DICT, SET or DICTVIEW */
DYN_HIDDEN bool plan_of_dict_iterator(Plan *p, PyObject *o, PlanValue *v);
DYN_HIDDEN bool plan_dict_view(Plan *p, PlanValue dict, uint8_t which, PlanValue *out);
DYN_HIDDEN uint32_t plan_dict_more(Plan *p,
                                   const PlanValue *it); /* a register: the place behind the next item; 0: there is none */
DYN_HIDDEN void plan_dict_next(Plan *p, PlanValue *it, uint32_t next, struct PlanItem *key, struct PlanItem *value);
DYN_HIDDEN bool plan_dict_pair(Plan *p, const struct PlanItem *key, const struct PlanItem *value, PlanValue *out);

/* ---- methods.c: of lists, dicts and sets */
DYN_HIDDEN bool plan_of_method(Plan *p, PyObject *o, PlanValue *v); /* bound to an object */
DYN_HIDDEN PlanValue plan_bound_to(Plan *p, const PlanValue *method);
DYN_HIDDEN PyObject *plan_known_method(const PlanValue *self, const char *name); /* borrowed */
DYN_HIDDEN Went plan_call_method(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots);
DYN_HIDDEN Went plan_call_method_with_names(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n,
                                            PyObject *names, uint32_t slots);
#endif
