"""What a page of JupyterLab is asked to do.

A promise that is handed out would be waited for without a time limit: instead `window` says when it is done.
"""

READY = """(path) => {
  const ready = async () => {
    const app = window.jupyterapp;
    await app.restored;
    const open = () => app.commands.execute('docmanager:open', {path, factory: 'Notebook'});
    const isOpen = app.shell.currentWidget?.context?.path === path;
    const widget = isOpen ? app.shell.currentWidget : await open();
    await widget.context.ready;
    const context = widget.context.sessionContext;
    await context.ready;
    await context.session.kernel.info;
    if (!isOpen) app.shell.activateById(widget.id);
  };
  window.batchaiReady = null;
  ready().then(() => { window.batchaiReady = path; }, (error) => { window.batchaiReady = String(error); });
}"""
IS_OPEN = """(path) => [...(window.jupyterapp?.shell.widgets('main') ?? [])]
  .some((widget) => widget.context?.path === path)"""
# A page that is slow may show a notebook without making it the current one: it is activated until it is.
IS_READY = """(path) => {
  if (window.batchaiReady !== path) return false;
  const { shell } = window.jupyterapp;
  if (shell.currentWidget?.context?.path === path) return !!shell.currentWidget.content.widgets;
  const widget = [...shell.widgets('main')].find((each) => each.context?.path === path);
  if (widget) shell.activateById(widget.id);
  return false;
}"""
# To be drawn anew, the application is hidden for a frame after its theme has changed.
IS_SHOWN = "() => !window.jupyterapp.shell.isHidden"
CLOSE_ALL = """() => {
  for (const widget of [...(window.jupyterapp?.shell.widgets('main') ?? [])]) widget.dispose();
}"""
COMMAND = """(name) => {
  window.batchaiCommanded = false;
  window.jupyterapp.commands.execute(name).then(() => { window.batchaiCommanded = true; });
}"""
RESTART_KERNEL = """() => {
  window.batchaiRestarted = false;
  const context = window.jupyterapp.shell.currentWidget.context.sessionContext;
  const restart = async () => { await context.restartKernel(); await context.session.kernel.info; };
  restart().then(() => { window.batchaiRestarted = true; });
}"""
SET_SOURCE = """([index, text]) => {
  const cells = window.jupyterapp.shell.currentWidget.content.widgets;
  cells[index].model.sharedModel.setSource(text);
}"""
RUN_CELL = """(index) => {
  const app = window.jupyterapp;
  const runs = (window.batchaiRuns ??= {});  // a cell that runs again still has the number of its last run
  const run = (runs[index] = {isDone: false});
  const end = () => { run.isDone = true; };
  app.shell.currentWidget.content.activeCellIndex = index;
  app.commands.execute('notebook:run-cell').then(end, end);
}"""
NOTE_CLICK = "(one) => one.addEventListener('click', () => { one.dataset.clicked = 'true'; }, {once: true})"
HIDE = """([index, isHidden]) => {
  document.querySelectorAll('.jp-CodeCell')[index].style.display = isHidden ? 'none' : '';
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
CLEAR = """(index) => {
  const cells = window.jupyterapp.shell.currentWidget.content.widgets;
  cells[index].model.clearExecution();
  cells[index].outputHidden = false;
}"""
IS_DONE = "(index) => window.batchaiRuns[index].isDone"
