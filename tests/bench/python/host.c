/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The cases in C around Python: the measured thread runs a loop thirty calls deep. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "bench.h"

#define DEPTH 30

static int (*host_over)(void *);
static void *host_data;

static PyObject *is_over(PyObject *self, PyObject *none) {
  (void)self, (void)none;
  return PyBool_FromLong(host_over(host_data));
}

static PyMethodDef method = {"is_over", is_over, METH_NOARGS, NULL};

static void burn_in_python(int (*over)(void *), void *data) {
  static const char text[] = "def deep(n):\n"
                             "  if n > 1: return deep(n - 1)\n"
                             "  total = 0\n"
                             "  while not is_over():\n"
                             "    for i in range(20000): total = (total * 31 + i) % 65521\n"
                             "  return total\n"
                             "deep(depth)\n";
  host_over = over;
  host_data = data;
  PyObject *globals = PyModule_GetDict(PyImport_AddModule("__main__"));
  PyDict_SetItemString(globals, "is_over", PyCFunction_New(&method, NULL));
  PyDict_SetItemString(globals, "depth", PyLong_FromLong(DEPTH - 1)); /* the file's own code is a frame, too */
  if (!PyRun_String(text, Py_file_input, globals, globals)) PyErr_Print(), bench_fail("Python failed");
}

int main(int argc, char **argv) {
  Py_InitializeEx(0); /* without handlers of signals */
  bench_burn_hook = burn_in_python;
  const int status = bench_run(argc, argv);
  Py_Finalize();
  return status;
}
